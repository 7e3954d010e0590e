"""Many streams at a time, some of which break off on either side: nothing is lost, nothing left.

Both ends draw what happens to a stream from its number, so that each knows what the other meant.
"""

import hashlib
import json
import random
import threading
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import pytest

from .conftest import RULES
from .harness import CHUNKED, Client, Peer, Proxy, Received, Upstream, eventually, head

pytestmark = pytest.mark.slow

AT_A_TIME = 60
WARM = 100
SESSIONS = 5
"""Few, so that what is remembered of each does not look like a leak."""


@dataclass(frozen=True)
class Plan:
    """What a stream is to be. ``dies`` and ``leaves``: after which event, or never."""

    pieces: tuple[bytes, ...]
    gap: float
    chunked: bool
    dies: int | None
    leaves: int | None
    how: str

    @classmethod
    def of(cls, number: int) -> Self:
        drawn = random.Random(number)
        pieces = tuple(
            b"data: %d %s\n\n" % (index, drawn.randbytes(drawn.randint(0, 900)).hex().encode())
            for index in range(drawn.randint(3, 25))
        )
        fate, when = drawn.random(), drawn.randrange(len(pieces))
        return cls(
            pieces,
            drawn.choice((0, 0, 0.002, 0.01)),
            drawn.random() < 0.7,
            when if fate < 0.1 else None,
            when if 0.1 <= fate < 0.2 else None,
            drawn.choice(("fin", "rst")),
        )

    def body(self, request: bytes) -> list[bytes]:
        """The events: what was asked, the pieces, and a checksum of them all."""
        events = [b"data: %08x\n\n" % zlib.crc32(request), *self.pieces]
        digest = hashlib.sha256(b"".join(events)).hexdigest()
        return [*events, b"event: last\ndata: %s\n\n" % digest.encode()]


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
    """The upstream's script; ``running`` counts the streams that are under way."""

    def __init__(self) -> None:
        self.running = 0
        self._lock = threading.Lock()

    def __call__(self, peer: Peer, received: Received) -> None:
        if b" /v1/messages " not in received.line:  # what kind of server this is
            peer.send(head(b"Content-Length: 0", status=b"404 Not Found"))
            return
        self._count(1)
        try:
            self._stream(peer, received.body)
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._lock:
            self.running += more

    def _stream(self, peer: Peer, body: bytes) -> None:
        plan = Plan.of(json.loads(body)["number"])
        events = plan.body(body)
        length = b"Content-Length: %d" % sum(map(len, events))
        peer.send(CHUNKED if plan.chunked else head(b"Content-Type: text/event-stream", length))
        for index, event in enumerate(events):
            peer.chunk(event) if plan.chunked else peer.send(event)
            if plan.dies is not None and index > plan.dies:
                peer.leave(plan.how)
                return
            if plan.leaves is not None and index > plan.leaves:
                assert peer.wait_closed()  # as a server at work: it only ends when it is left
                return
            if plan.gap and peer.wait_closed(plan.gap):
                return
        peer.send(b"0\r\n\r\n" if plan.chunked else b"")


def fetch(proxy: Proxy, number: int) -> str:
    """Ask for one stream, read it as far as the plan says; return what became of it."""
    plan, body = Plan.of(number), asked(number)
    fields = b"Connection: close", b"X-Session-Id: %d" % (number % SESSIONS)
    with Client(proxy.address) as client:
        client.ask("/v1/messages", body, *fields)
        if plan.leaves is not None:
            assert client.begin().status == 200
            client.read_exactly(sum(map(len, plan.pieces[: plan.leaves])) // 2)
            client.leave(plan.how)
            return "left"
        answer = client.answer()
    assert answer.status == 200
    expected = b"".join(plan.body(body))
    if plan.dies is not None:
        assert expected.startswith(answer.body)
        return "false complete" if answer.end == "whole" else "died"
    return "good" if (answer.end, answer.body) == ("whole", expected) else "bad"


def soak(proxy: Proxy, source: Source, numbers: range) -> Counter[str]:
    """Fetch ``numbers``, many at a time; what became of them, by their count."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        became = Counter(pool.map(lambda number: fetch(proxy, number), numbers))
    eventually(lambda: not source.running)
    return became


@pytest.mark.parametrize(
    ("watched", "count"),
    [
        pytest.param(False, 700, marks=pytest.mark.nightly),
        pytest.param(True, 700, marks=pytest.mark.nightly),
        (True, 400),
    ],
    ids=["plain", "rules and capture, for long", "rules and capture"],
)
def test_nothing_is_lost_and_nothing_left(tmp_path, watched, count):
    """Each whole stream is whole and unchanged; a cut one never looks whole; all end."""
    upstream = Upstream()
    upstream.reset(source := Source())
    (tmp_path / "config.toml").write_text(RULES)
    more = ("--config", "config.toml", "--capture", "captures", "--verbose") if watched else ()
    with Proxy(tmp_path, "--upstream", upstream.url, *more) as proxy:
        soak(proxy, source, range(WARM))  # what is kept for good is there by now
        before, files = proxy.memory(), len(proxy.open_files())
        became = soak(proxy, source, range(WARM, count))
        grown = proxy.memory() - before
        eventually(lambda: len(proxy.open_files()) <= files)
    upstream.close()
    plans = [Plan.of(number) for number in range(WARM, count)]
    died = sum(plan.dies is not None for plan in plans)
    left = sum(plan.leaves is not None for plan in plans)
    assert became == {"good": len(plans) - died - left, "died": died, "left": left}
    assert min(died, left) > 15
    assert grown < 30 << 20
    assert not upstream.errors
    assert "Traceback" not in proxy.output
