"""The group memory: resident when idle, per open stream, and with the largest body.

Each peer is started anew, alone.
"""

from __future__ import annotations

import time

from bench import process
from bench.first import Client, Connection
from bench.peer import Peer
from bench.run import Run
from bench.streams import Streams
from bench.targets import Target, running

STREAMS = 200
SESSIONS = 200
_LARGE = "20 MB"


def measure(direct: Target, peers: list[Peer], run: Run) -> None:
    _large(direct, run)
    for peer in peers:
        with running([peer], direct.port, run) as targets:
            for target in targets:
                try:
                    _one(target, run)
                except (OSError, EOFError, RuntimeError) as error:
                    run.note(target.name, f"memory: {error!r}")


def _one(target: Target, run: Run) -> None:
    def add(figure: str, value: float) -> None:
        run.figures.add("memory", figure, target.name, value)

    add("MB started", process.resident(target.pids()) / 1e6)
    client = Client(target.port, run.bodies["80 KB"])
    client.run(30, 5)
    client.close()
    time.sleep(1)
    idle = process.resident(target.pids())
    add("MB idle", idle / 1e6)
    open_: list[int] = []
    with Streams(target.port, run.bodies["80 KB"], STREAMS, "paced 10") as streams:
        streams.begin()
        streams.latencies(
            run.plan.stream_seconds, lambda: open_.append(process.resident(target.pids()))
        )
    add("KB/stream", (open_[0] - idle) / STREAMS / 1e3)
    time.sleep(1)
    add("MB after", process.resident(target.pids()) / 1e6)
    before = process.resident(target.pids())
    connection = Connection(target.port)
    for number in range(SESSIONS):
        connection.exchange(run.bodies["80 KB"].of_session(number).request(target.port, number))
    connection.close()
    time.sleep(1)
    add("KB/session", (process.resident(target.pids()) - before) / SESSIONS / 1e3)
    before = process.resident(target.pids())
    process.forget_peak(target.pids())
    _large(target, run)
    add("MB more at peak, 20 MB body", (process.peak(target.pids()) - before) / 1e6)
    time.sleep(1)
    add("MB after it", process.resident(target.pids()) / 1e6)


def _large(target: Target, run: Run) -> None:
    """Seconds that a body of 20 MB takes, to the first byte of its answer."""
    body = run.bodies[_LARGE]
    connection = Connection(target.port)
    for number in range(2):
        seconds, _ = connection.exchange(body.request(target.port, number))
        run.figures.add("memory", "20 MB body s", target.name, seconds)
    connection.close()
