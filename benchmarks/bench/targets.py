"""What is measured in one run: the upstream, reached directly and through each peer."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import process
from bench.peer import Peer, Running
from bench.run import Run

DIRECT = "direct"
_BENCHMARKS = Path(__file__).resolve().parents[1]


@dataclass
class Target:
    """Something that answers at 127.0.0.1:``port``; ``running`` is None for the upstream."""

    name: str
    port: int
    running: Running | None = None

    def pids(self) -> list[int]:
        return self.running.pids() if self.running else []


@contextlib.contextmanager
def upstream() -> Iterator[Target]:
    """Run the upstream in a child of its own, pinned as this process is."""
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.upstream"],
        cwd=_BENCHMARKS,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        yield Target(DIRECT, int(child.stdout.readline()))
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@contextlib.contextmanager
def running(peers: list[Peer], upstream: int, run: Run) -> Iterator[list[Target]]:
    """Start all ``peers``, on the proxy's core; stop them in the end. One that fails is a note."""
    core, _ = process.cores()
    with contextlib.ExitStack() as stack:
        targets = []
        for peer in peers:
            port = free_port()
            try:
                started = peer.start(port, upstream, core, run.folder, Path(sys.executable))
            except RuntimeError as error:
                run.note(peer.name, error)
                continue
            stack.callback(started.stop)
            targets.append(Target(peer.name, port, started))
        yield targets


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]
