"""How much memory the proxy takes after thousands of conversations, and what it still knows then.

    python benchmarks/memory.py [--memory MIB ...] [--share 0.1]

A proxy as shipped, with the rules of all installed packages, gets one load after another, between
a stand-in for the model server and one client. Printed after each: resident memory, its growth
since the start, how many turns were compared with the turn before, which must be remembered for
that, and what a request takes of CPU. ``--memory`` may be given several times, for a proxy each;
``--share`` sends so much of each load.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.first import Connection
from bench.process import cpu_ns

from tests.proxy.harness import Proxy

_WORDS = [bytes(random.Random(n).choices(b"abcdefghij", k=2 + n % 9)).decode() for n in range(3000)]
_TURNS = re.compile(r'^cacheproxy_turns_total\{.*verdict="(\w+)".*\} (\S+)$', re.MULTILINE)
Job = tuple[str, bytes]
"""A session, and the body of a request in it."""


def text(size: int, seed: str) -> str:
    """Words of ``size`` characters in all."""
    return " ".join(random.Random(seed).choices(_WORDS, k=size // 6))[:size]


def messages(session: str, count: int, size: int) -> list[dict[str, str]]:
    """So many messages of ``size`` characters, unlike any other session's."""
    roles = ("user", "assistant")
    return [
        {"role": roles[at % 2], "content": text(size, f"{session} {at}")} for at in range(count)
    ]


def body(said: list[dict[str, str]], head: str = "") -> bytes:
    """Return a request's body; ``head``: what its system text begins with."""
    system = [{"type": "text", "text": each} for each in (head, "Be brief.") if each]
    return json.dumps({"model": "m", "max_tokens": 9, "system": system, "messages": said}).encode()


def single(name: str, sessions: int, count: int, size: int) -> Iterator[Job]:
    """Sessions of one request, each with ``count`` messages of ``size`` characters."""
    for number in range(sessions):
        session = f"{name}-{number:06d}"
        yield session, body(messages(session, count, size))


def growing(name: str, sessions: int, turns: int, first: int, size: int) -> Iterator[Job]:
    """Twenty sessions at a time, by turns; each has ``first`` messages, then two more a turn."""
    for start in range(0, sessions, 20):
        names = [f"{name}-{number:06d}" for number in range(start, min(start + 20, sessions))]
        said = {session: messages(session, first + 2 * turns, size) for session in names}
        for turn in range(turns):
            for session in names:
                yield session, body(said[session][: first + 2 * turn])


def by_turns(name: str, sessions: int, turns: int, first: int, size: int) -> Iterator[Job]:
    """All sessions by turns, as ``growing``; they begin alike, their heads differ each time."""
    names = [f"{name}-{number:06d}" for number in range(sessions)]
    alike = {"role": "user", "content": text(size, name)}
    for turn in range(turns):
        for session in names:
            said = [alike, *messages(session, first + 2 * turn, size)]
            yield session, body(said, text(200, f"{session} {turn}"))


def loads(share: float) -> Iterator[tuple[str, Iterator[Job]]]:
    """Yield what is sent, and what to call it."""

    def some(count: int) -> int:
        return max(20, int(count * share))

    yield "a warm start", single("warm", 20, 1, 2000)
    yield "20 of 500 KB, 3 turns each", growing("large", 20, 3, 99, 5000)
    yield "20 of 500 KB in 2,300 messages", growing("tiny", 20, 3, 2299, 190)
    yield f"{some(14_000):,} of one request of 2 KB", single("one", some(14_000), 1, 2000)
    yield f"{some(1000):,} of one request of 80 KB", single("big", some(1000), 21, 3800)
    yield f"{some(2000):,} growing over 20 turns", growing("grow", some(2000), 20, 1, 1000)
    yield "20 of 500 KB, 3 turns each", growing("again", 20, 3, 99, 5000)
    yield "200 of 60 KB by turns, 6 each", by_turns("turns", 200, 6, 30, 2000)


def compared(url: str) -> tuple[int, int]:
    """Return how many turns were compared with the one before, and how many turns there were."""
    page = urllib.request.urlopen(f"{url}/_cacheproxy/metrics").read().decode()
    counts = {name: int(float(count)) for name, count in _TURNS.findall(page)}
    return counts.get("ok", 0) + counts.get("break", 0), sum(counts.values())


def measure(upstream: int, memory: int | None, share: float) -> None:
    """Print a row for each load."""
    with tempfile.TemporaryDirectory() as folder:
        own = () if memory is None else ("--memory", str(memory))
        arguments = (*own, "--upstream", f"http://127.0.0.1:{upstream}", "--state-dir", folder)
        with Proxy(Path(folder), *arguments, CACHEPROXY_BLOCK="") as proxy:
            connection, start = Connection(proxy.address[1]), 0
            for name, jobs in loads(share):
                began, before = time.monotonic(), compared(proxy.url)
                used = cpu_ns([proxy.pid])
                for session, content in jobs:
                    connection.exchange(request(session, content))
                time.sleep(1)  # what is judged and written afterwards counts, too
                used = cpu_ns([proxy.pid]) - used
                seconds, now = time.monotonic() - began, proxy.memory() >> 20
                start = start or now
                known, turns = (b - a for a, b in zip(before, compared(proxy.url), strict=True))
                print(
                    f"{memory or 'default':>7}  {name:34} {now:4} MiB {now - start:+5}"
                    f"  compared {known:6,} of {turns:6,}  {seconds:5.0f} s"
                    f"  {used / 1e6 / turns:5.2f} ms each",
                    flush=True,
                )


def request(session: str, content: bytes) -> bytes:
    """Return a whole request."""
    return (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"User-Agent: claude-cli/2.1.329 (external, cli)\r\nX-Claude-Code-Session-Id: %s\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (session.encode(), len(content), content)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memory", type=int, action="append", metavar="MIB")
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    command = [sys.executable, "-m", "bench.upstream"]
    here = Path(__file__).parent
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE) as upstream:
        assert upstream.stdout is not None
        try:
            port = int(upstream.stdout.readline())
            for memory in options.memory or [None]:
                measure(port, memory, options.share)
        finally:
            upstream.kill()


if __name__ == "__main__":
    main()
