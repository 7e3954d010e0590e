"""A day in miniature: hundreds of thousands of requests, and nothing lost, leaked or miscounted.

    python benchmarks/soak.py [--requests 200000] [--minutes 60] [--speed 100] [--memory MIB]

Conversations of 100 turns, 200 at a time, with Claude Code's pinned date. The proxy's wall clock
runs ``--speed`` times as fast from 22:00 on, so that days pass; timers keep real time (the reactor
has another clock), else each deadline would come too early. The stand-in for the model server is
killed and started anew every 10,000 requests, the proxy reloads every 2,500. One request in a
hundred is answered with an error, one in two hundred is given up by its client. Each answer says
what it cost; at the end the metrics and the totals on disk are compared with what the clients saw.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

from cacheproxy.totals.file import open_file
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.windows import lifetime
from tests.proxy.harness import Proxy

CLIENTS, TURNS, AT_A_TIME = 8, 100, 200
RELOAD, RESTART, SHOW = 2_500, 10_000, 10_000
FAST_CLOCK = """
import sys, time
import twisted.python.runtime
real, start, speed = time.time, {start!r}, {speed!r}
begun = real()
time.time = lambda: start + (real() - begun) * speed
from twisted.scripts.twistd import run
sys.exit(run())
"""
_ASKED = re.compile(rb"(?i)x-soak: (\d+) (\w+) ([\d-]+)\r\n")
_LENGTH = re.compile(rb"(?i)content-length: (\d+)\r\n")
_COUNTED = re.compile(r"^cacheproxy_requests_total\{(.*)\} (\S+)$", re.MULTILINE)
_PINNED = re.compile(r'^cacheproxy_rule_hits_total\{rule="claude-pin-date"\} (\S+)$', re.MULTILINE)


def usage(length: int) -> dict[str, int]:
    """Return what a request of ``length`` characters of messages costs."""
    return {
        "input_tokens": 50,
        "cache_read_input_tokens": length // 4,
        "output_tokens": 7,
    }


async def stand_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request as its header X-Soak says."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length, asked = _LENGTH.search(head), _ASKED.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        if asked is None:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        elif b"Date: " + asked[3] not in body:
            writer.write(_whole("409 Conflict", {"type": "error", "error": {"type": "unpinned"}}))
        elif asked[2] == b"error":
            writer.write(_whole("500 Broken", {"type": "error", "error": {"type": "api_error"}}))
        elif asked[2] == b"never":
            await reader.read()
        elif asked[2] == b"stream":
            writer.write(_streamed(usage(int(asked[1]))))
        else:
            said = {"type": "message", "content": [], "usage": usage(int(asked[1]))}
            writer.write(_whole("200 OK", said))
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def _whole(status: str, said: object) -> bytes:
    content = json.dumps(said).encode()
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(content),
        content,
    )


def _streamed(cost: dict[str, int]) -> bytes:
    events = [
        {"type": "message_start", "message": {"type": "message", "usage": cost}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": cost["output_tokens"]}},
        {"type": "message_stop"},
    ]
    pieces = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\n" + head + chunks + b"0\r\n\r\n"


async def serve(port: int) -> None:
    """Be the stand-in until killed."""
    server = await asyncio.start_server(stand_in, "127.0.0.1", port, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Upstream:
    """The stand-in in a process of its own, always at the same port."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(self.port)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """Kill it: what it is answering breaks off."""
        self._process.kill()
        self._process.wait()


class Fast(Proxy):
    """A proxy whose wall clock runs faster."""

    start, speed = 0.0, 1.0

    def command(self, *arguments: str) -> list[str]:
        """Return its command line."""
        code = FAST_CLOCK.format(start=self.start, speed=self.speed)
        return [sys.executable, "-c", code, "-n", "--pidfile=", "cacheproxy", *arguments]

    @property
    def threads(self) -> int:
        """How many threads it has."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))


class Soak:
    """The load. ``became`` counts requests by what their clients saw, ``tokens`` what it cost."""

    def __init__(
        self, proxy: Fast, upstream: Upstream, config: Path, requests: int, seconds: float
    ) -> None:
        self.became: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.days: set[str] = set()
        self._proxy, self._upstream, self._config = proxy, upstream, config
        self._requests = requests
        self._sent = 0
        self._begun = time.time()
        self._until = self._begun + seconds

    async def run(self) -> None:
        """Send it all."""
        for first in range(0, self._requests // TURNS, AT_A_TIME):
            last = min(first + AT_A_TIME, self._requests // TURNS)
            await asyncio.gather(
                *(self._client(range(first + at, last, CLIENTS)) for at in range(CLIENTS))
            )
        await asyncio.sleep(1)  # the stand-in may just have been killed

    def today(self) -> str:
        """Return the day by the proxy's clock."""
        now = self._proxy.start + (time.time() - self._begun) * self._proxy.speed
        day = time.strftime("%Y-%m-%d", time.localtime(now))
        self.days.add(day)
        return day

    async def _client(self, names: range) -> None:
        """Hold some conversations by turns, over one connection."""
        said: dict[int, list[dict[str, str]]] = {name: [] for name in names}
        dates: dict[int, str] = {}
        ends = await asyncio.open_connection(*self._proxy.address)
        for turn in range(TURNS):
            for name in names:
                if time.time() > self._until:
                    break
                user = f"conversation {name}, turn {turn}: " + "go on with it " * 5
                said[name].append({"role": "user", "content": user})
                first = dates.setdefault(name, self.today())
                number = name * TURNS + turn
                how = "error" if number % 100 == 37 else "stream" if number % 2 else "whole"
                how = "never" if number % 200 == 111 else how
                ends = await self._ask(ends, name, said[name], first, how)
                said[name].append({"role": "assistant", "content": f"done, {turn} of {name}"})
        ends[1].close()

    async def _ask(self, ends, name, messages, first, how):  # type: ignore[no-untyped-def]
        """Send one request; return the connection for the next."""
        self._turn_screws()
        system = f"You are an agent.\nCWD: ~/{name}\nDate: {self.today()}"
        said = {"model": "m", "max_tokens": 9, "system": system, "messages": messages}
        body, (reader, writer) = json.dumps(said).encode(), ends
        length = sum(len(one["content"]) for one in messages)
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: claude-cli/2.1.329\r\n"
            b"Content-Type: application/json\r\nX-Claude-Code-Session-Id: soak-%d\r\n"
            b"X-Soak: %d %s %s\r\nContent-Length: %d\r\n\r\n%s"
            % (name, length, how.encode(), first.encode(), len(body), body)
        )
        if how == "never":
            await asyncio.sleep(0.02)
            writer.close()
            self.became["given up"] += 1
            return await asyncio.open_connection(*self._proxy.address)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if found := _LENGTH.search(head):
                await reader.readexactly(int(found[1]))
            else:
                await reader.readuntil(b"\r\n0\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError):
            self.became["cut"] += 1
            return await asyncio.open_connection(*self._proxy.address)
        status = head.split(b" ", 2)[1].decode()
        self.became[status] += 1
        if status == "200":
            self.tokens.update(usage(length))
        return ends

    def _turn_screws(self) -> None:
        """Reload, restart and show in their turn."""
        self._sent += 1
        if self._sent % RELOAD == 0:
            self._config.write_text(f"ping_after = {10 + self._sent % 7}\n")
            self._proxy.signal(signal.SIGHUP)
        if self._sent % RESTART == 0:
            self._upstream.kill()
            asyncio.get_running_loop().call_later(0.3, self._upstream.start)
        if self._sent % SHOW == 1:
            self.show()

    def show(self) -> None:
        """Print what the proxy takes now."""
        proxy = self._proxy
        print(
            f"{self._sent:9,}  {self.today()}  {time.time() - self._begun:6.0f} s  "
            f"{proxy.memory() >> 20:4} MiB  {len(proxy.open_files()):3} descriptors  "
            f"{proxy.threads:2} threads",
            flush=True,
        )


def compare(soak: Soak, page: str, folder: Path) -> bool:
    """Print what was counted beside what was seen; whether they agree."""
    seen, tokens = soak.became, soak.tokens
    requests: Counter[str] = Counter()
    for labels, count in _COUNTED.findall(page):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        requests[f"{named['outcome']} {named['status']}"] += int(float(count))
    connection = open_file(folder)[0]
    kept = lifetime(TotalsStore(connection))
    connection.close()
    evaluated, reused = tokens["input_tokens"], tokens["cache_read_input_tokens"]
    failed = sum(seen[name] for name in ("409", "500", "502", "cut"))
    left = requests["client_left none"]
    rows = [
        ("exchanges (metrics)", seen.total(), requests.total()),
        ("exchanges (totals)", seen.total(), kept["requests"]),
        # A client may leave a server that is away just now: whoever was first counts.
        ("errors, and clients that left", failed + seen["given up"], kept["errors"] + left),
        ("evaluated tokens", evaluated, kept["evaluated"]),
        ("reused tokens", reused, kept["reused"]),
        ("generated tokens", tokens["output_tokens"], kept["output"]),
        ("requests whose first date was lost", 0, seen["409"]),
    ]
    print(f"seen by clients: {dict(seen)}\nby the metrics: {dict(requests)}")
    pinned = _PINNED.search(page)
    print(f"days: {sorted(soak.days)}; dates pinned: {pinned[1] if pinned else 0}; {kept}")
    for name, wanted, found in rows:
        print(f"{name:36} {wanted:14,} {found:14,}  {'ok' if wanted == found else 'WRONG'}")
    return all(wanted == found for _, wanted, found in rows)


def main() -> int:
    """Run it; 1 where something does not agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="ends earlier then")
    parser.add_argument("--speed", type=float, default=100.0)
    parser.add_argument("--memory", type=int, default=192, metavar="MIB")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return 0
    evening = time.strptime(time.strftime("%Y-%m-%d 22:00"), "%Y-%m-%d %H:%M")
    Fast.start, Fast.speed = time.mktime(evening), options.speed
    upstream = Upstream()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, state = folder / "config.toml", folder / "state"
        config.write_text("")
        arguments = ("--config", str(config), "--state-dir", str(state), "--poll", "2")
        arguments += ("--memory", str(options.memory))
        arguments += ("--upstream", f"http://127.0.0.1:{upstream.port}")
        try:
            with Fast(folder, *arguments, CACHEPROXY_BLOCK="") as proxy:
                seconds = options.minutes * 60
                soak = Soak(proxy, upstream, config, options.requests, seconds)
                asyncio.run(soak.run())
                time.sleep(5)  # the server is looked at once more, which counts what it answered
                page = urlopen(f"{proxy.url}/_cacheproxy/metrics").read().decode()
                soak.show()
            trouble = [line for line in proxy.lines if "Traceback" in line or "raised" in line]
        finally:
            upstream.kill()
        is_right = compare(soak, page, state)
    print(f"trouble in the log: {trouble or 'none'}")
    return 0 if is_right and not trouble else 1


if __name__ == "__main__":
    sys.exit(main())
