"""What records and captures cost: CPU of the proxy process, with them and without, interleaved.

    python benchmarks/records.py [--exchanges 10000] [--rounds 4] [--body 50000] [--json]

A scripted upstream answers at once with a usage; a client with eight connections sends the turns of
many sessions, each the one before and more. Four variants take turns (A B C D A B C D), each a
proxy of its own: without verdicts and record; with them (as shipped); with captures besides.
Printed: CPU milliseconds (user and system, of the proxy alone) per exchange, the ratio to "off",
and how far resident memory grew over the second half of a round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TURNS = 20
CONNECTIONS = 8
OFF = """
from cacheproxy.daemon import lasting
import cacheproxy.tap as tap
from cacheproxy import hookimpl, quick
class Off:
    def __init__(self, reactor, deliver, collector): self.deliver = deliver
    def settle(self): pass
    def looked(self, look): pass
    def start(self): pass
    def stop(self): pass
    def __call__(self, exchanges): self.deliver(exchanges)
class Forget:
    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges): pass
tap.Judging = Off
lasting.Recent = Forget
"""
RUN = "from twisted.scripts.twistd import run; run()"
ANSWER = json.dumps(
    {
        "type": "message",
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 9990, "output_tokens": 1},
    }
).encode()
REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
)


def bodies(size: int) -> list[bytes]:
    """The turns of one session: a head of ``size`` bytes with tools, then a message more each."""
    words = "the quick brown fox jumps over the lazy dog "
    tools = [
        {
            "name": f"tool{n}",
            "description": words * (size // 4 // 12 // len(words)),
            "input_schema": {},
        }
        for n in range(12)
    ]
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.9.abc; cch=CCH00;"},
        {"type": "text", "text": words * (size * 3 // 4 // len(words))},
    ]
    found = []
    messages: list[dict[str, str]] = [{"role": "user", "content": "SESSION"}]
    for turn in range(TURNS):
        body = {
            "model": "m",
            "max_tokens": 1,
            "messages": messages,
            "system": system,
            "tools": tools,
        }
        found.append(json.dumps(body).replace("CCH00", f"{turn:05x}").encode())
        messages = [
            *messages,
            {"role": "assistant", "content": words * 3},
            {"role": "user", "content": f"turn {turn} {words}"},
        ]
    return found


async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request, answer it, close."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    writer.write(REPLY)
    await writer.drain()
    writer.close()


async def client(port: int, jobs: Iterator[tuple[str, bytes]]) -> None:
    """Send jobs over one connection, one after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for session, body in jobs:
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"User-Agent: claude-cli/1\r\nX-Claude-Code-Session-Id: %s\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (session.encode(), len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(len(ANSWER))
    writer.close()


def jobs_of(exchanges: int, turns: list[bytes], start: int) -> Iterator[tuple[str, bytes]]:
    """Whole sessions, each with a first message of its own."""
    for session in range(start, start + exchanges // TURNS):
        name = f"session-{session:08d}"
        for body in turns:
            yield name, body.replace(b"SESSION", name.encode())


def cpu(pid: int) -> float:
    """Seconds of CPU that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Proxy:
    """A proxy child of one variant."""

    def __init__(self, variant: str, upstream_port: int, folder: str) -> None:
        code = (OFF if variant == "off" else "") + RUN
        extra = ["--capture", f"{folder}/{variant}"] if variant == "capture" else []
        self.process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-c",
                    code,
                    "-n",
                    "--pidfile=",
                    f"--logfile={folder}/{variant}.log",
                ),
                *("cacheproxy", "--config", os.devnull, "--port", "0"),
                *("--state-dir", "none", "--poll", "0"),
                *("--upstream", f"http://127.0.0.1:{upstream_port}", *extra),
            ],
        )
        log = Path(folder, f"{variant}.log")
        for _ in range(200):
            said = log.read_text() if log.exists() else ""
            if "→" in said:
                break
            time.sleep(0.05)
        self.port = int(said.partition("http://127.0.0.1:")[2].split()[0])


async def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Run the rounds; return medians by variant."""
    turns = bodies(options.body)
    server = await asyncio.start_server(upstream, "127.0.0.1", 0, limit=1 << 22)
    port = server.sockets[0].getsockname()[1]
    per_round = options.exchanges // options.rounds
    costs: dict[str, list[float]] = {"off": [], "record": [], "capture": []}
    growth: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        proxies = {variant: Proxy(variant, port, folder) for variant in costs}
        try:
            for turn in range(options.rounds):
                for variant, proxy in proxies.items():
                    pid = proxy.process.pid
                    before, size = cpu(pid), resident(pid)
                    jobs = jobs_of(per_round, turns, turn * per_round)
                    await asyncio.gather(*(client(proxy.port, jobs) for _ in range(CONNECTIONS)))
                    await asyncio.sleep(1)  # what is written and judged afterwards counts, too
                    costs[variant].append((cpu(pid) - before) / per_round * 1e3)
                    growth[variant] = resident(pid) - size
        finally:
            for proxy in proxies.values():
                proxy.process.terminate()
                proxy.process.wait()
    off = statistics.median(costs["off"])
    return {
        variant: {
            "cpu_ms": round(statistics.median(found), 3),
            "ratio": round(statistics.median(found) / off, 3),
            "mb_grown_in_the_last_round": round(growth[variant], 1),
        }
        for variant, found in costs.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--exchanges", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--body", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(measure(options))
    if options.json:
        print(json.dumps(found))
        return
    for variant, figures in found.items():
        print(variant.ljust(10), "  ".join(f"{name} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
