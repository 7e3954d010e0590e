"""Many streams at a time, some of which break off on either side: nothing is lost, nothing left.

Both ends draw what happens to a stream from its number, so that each knows what the other meant.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import socket
import struct
import zlib
from collections import Counter
from dataclasses import dataclass

import pytest

from .conftest import RULES
from .harness import TIMEOUT, Proxy, eventually

pytestmark = pytest.mark.slow

AT_A_TIME = 60
WARM, ALL = 150, 700
SESSIONS = 5
"""Few, so that what is remembered of each does not look like a leak."""
LAST = b"event: last\ndata: "


@dataclass(frozen=True)
class Plan:
    """What a stream is to be. ``dies`` and ``leaves``: after which event, or never."""

    pieces: tuple[bytes, ...]
    gap: float
    chunked: bool
    dies: int | None
    leaves: int | None
    reset: bool

    @classmethod
    def of(cls, number: int) -> Plan:
        drawn = random.Random(number)
        pieces = tuple(
            b"data: %d %s\n\n" % (index, drawn.randbytes(drawn.randint(0, 900)).hex().encode())
            for index in range(drawn.randint(3, 25))
        )
        fate = drawn.random()
        when = drawn.randrange(len(pieces))
        return cls(
            pieces,
            drawn.choice((0, 0, 0.002, 0.01)),
            drawn.random() < 0.7,
            when if fate < 0.1 else None,
            when if 0.1 <= fate < 0.2 else None,
            drawn.random() < 0.5,
        )

    def body(self, request: bytes) -> list[bytes]:
        """The events: what was asked, the pieces, and a checksum of them all."""
        events = [b"data: %08x\n\n" % zlib.crc32(request), *self.pieces]
        digest = hashlib.sha256(b"".join(events)).hexdigest()
        return [*events, LAST + digest.encode() + b"\n\n"]


def asked(number: int) -> bytes:
    """The request's body: text of many kinds, in which rules find nothing, or something."""
    drawn = random.Random(-number)
    text = "".join(drawn.choices('aé€😀\n"\\ ', k=drawn.randint(0, 3000)))
    said = {
        "number": number,
        "stream": True,
        "system": "You are a test.",
        "messages": [{"role": "user", "content": text}],
    }
    return json.dumps(said, ensure_ascii=drawn.random() < 0.5).encode()


class Source:
    """The upstream; ``running`` counts the streams that are under way."""

    def __init__(self) -> None:
        self.running = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"POST"):  # what kind of server this is
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            body = await reader.readexactly(length_in(head))
            self.running += 1
            try:
                await self._stream(body, reader, writer)
            finally:
                self.running -= 1
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _stream(self, body, reader, writer) -> None:
        plan = Plan.of(json.loads(body)["number"])
        events = plan.body(body)
        framing = b"Transfer-Encoding: chunked"
        if not plan.chunked:
            framing = b"Content-Length: %d" % sum(map(len, events))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%s\r\n\r\n" % framing)
        left = asyncio.ensure_future(reader.read(1))
        try:
            for index, event in enumerate(events):
                writer.write(b"%x\r\n%s\r\n" % (len(event), event) if plan.chunked else event)
                if plan.dies is not None and index > plan.dies:
                    die(writer, reset=plan.reset)
                    return
                await writer.drain()
                if plan.leaves is not None and index > plan.leaves:
                    await left  # as a server at work: it only ends when it is left
                    return
                if plan.gap and (await asyncio.wait([left], timeout=plan.gap))[0]:
                    return
            if plan.chunked:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            left.cancel()


def die(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()


def length_in(head: bytes) -> int:
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    return int(fields.get(b"content-length", 0))


async def fetch(address: tuple[str, int], number: int) -> str:
    """Ask for one stream, read it as far as the plan says; return what became of it."""
    plan, body = Plan.of(number), asked(number)
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nX-Session-Id: %d\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (number % SESSIONS, len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        if plan.leaves is not None:
            await reader.readexactly(sum(map(len, plan.pieces[: plan.leaves])) // 2)
            die(writer, reset=plan.reset)
            return "left"
        rest, whole = await read_rest(reader, head)
    finally:
        writer.close()
    expected = b"".join(plan.body(body))
    if plan.dies is not None:
        assert expected.startswith(rest)
        return "false complete" if whole else "died"
    return "good" if whole and rest == expected else "bad"


async def read_rest(reader: asyncio.StreamReader, head: bytes) -> tuple[bytes, bool]:
    """The body as far as it came, and whether the framing says that it is whole."""
    body = b""
    try:
        if b"chunked" not in head.lower():
            size = length_in(head)
            body = await reader.read(size)
            while len(body) < size:
                more = await reader.read(size - len(body))
                if not more:
                    return body, False
                body += more
            return body, True
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        return body, await reader.readexactly(2) == b"\r\n"
    except (asyncio.IncompleteReadError, ConnectionError):
        return body, False


async def soak(proxy: Proxy, source: Source, numbers: range) -> Counter[str]:
    """Fetch ``numbers``, many at a time; what became of them, by their count."""
    waiting = iter(numbers)
    became: Counter[str] = Counter()

    async def worker() -> None:
        for number in waiting:
            async with asyncio.timeout(TIMEOUT):
                became[await fetch(proxy.address, number)] += 1

    await asyncio.gather(*(worker() for _ in range(AT_A_TIME)))
    await asyncio.to_thread(eventually, lambda: not source.running)
    return became


@pytest.mark.parametrize(
    "watched",
    [pytest.param(False, marks=pytest.mark.nightly), True],
    ids=["plain", "rules and capture"],
)
def test_nothing_is_lost_and_nothing_left(tmp_path, watched):
    """Each whole stream is whole and unchanged; a cut one never looks whole; all end."""
    arguments = []
    if watched:
        (tmp_path / "config.toml").write_text(RULES)
        arguments = ["--config", "config.toml", "--capture", "captures", "--verbose"]

    async def run() -> None:
        source = Source()
        server = await asyncio.start_server(source.serve, "127.0.0.1", 0, backlog=256)
        port = server.sockets[0].getsockname()[1]
        proxy = Proxy(tmp_path, *arguments, "--upstream", f"http://127.0.0.1:{port}")
        await asyncio.to_thread(proxy.__enter__)
        try:
            await soak(proxy, source, range(WARM))  # what is kept for good is there by now
            before = proxy.memory()
            files = len(proxy.open_files())
            became = await soak(proxy, source, range(WARM, ALL))
            grown = proxy.memory() - before
            eventually(lambda: len(proxy.open_files()) <= files)
        finally:
            await asyncio.to_thread(proxy.__exit__)
            server.close()
        plans = [Plan.of(number) for number in range(WARM, ALL)]
        died = sum(plan.dies is not None for plan in plans)
        left = sum(plan.leaves is not None for plan in plans)
        assert became == {"good": len(plans) - died - left, "died": died, "left": left}
        assert min(died, left) > 30
        assert grown < 30 << 20
        assert "Traceback" not in proxy.output

    asyncio.run(run())
