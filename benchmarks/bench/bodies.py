"""Request bodies as Claude Code sends them, of the sizes measured, made of real captures.

Claude Code writes ``system`` after ``messages``; the first system block is the billing header,
whose ``cch`` differs from request to request. Small bodies are a recorded one with tools and text
cut away, large ones a recorded one with turns of recorded conversations added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import find_captures, load_capture

SIZES = {
    "2 KB": 2_000,
    "80 KB": 80_000,
    "130 KB": 130_000,
    "500 KB": 500_000,
    "2 MB": 2_000_000,
    "20 MB": 20_000_000,
}
TURNS = (1, 10, 50, 100, 200, 300, 400, 500)
"""Turns of the conversations by which growth is measured."""
_PAIRS = 8
"""Pairs of messages (a tool call and its result, an answer and the next prompt) in such a turn."""
CHAT = "80 KB chat"
"""The body that has nothing to edit."""
HEADER = b"x-anthropic-billing-header:"
_CCH = b"cch="
_CLAUDE = "claude_2.1.174-gitchange.jsonl"
_OPENAI = "qwen-resume.jsonl"
_SESSION = "X-Claude-Code-Session-Id"
_OWN_HEADERS = {"host", "content-length", "connection"}


@dataclass(frozen=True)
class Body:
    """A body in two parts, with five hexadecimal digits of ``cch`` between them, or none."""

    name: str
    path: str
    headers: tuple[tuple[str, str], ...]
    """As recorded, but for Host, Connection and Content-Length."""
    head: bytes
    tail: bytes = b""

    @property
    def has_header(self) -> bool:
        return self.tail != b""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail) + 5 * self.has_header

    def content(self, number: int) -> bytes:
        """Return the bytes of the body, request ``number``."""
        if not self.has_header:
            return self.head
        return b"%s%05x%s" % (self.head, number * 7919 & 0xFFFFF, self.tail)

    def request_head(self, port: int, more: str = "") -> bytes:
        """Return request line and headers; ``more`` are further whole header lines."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        return (
            f"POST {self.path} HTTP/1.1\r\n{lines}Host: 127.0.0.1:{port}\r\n"
            f"Content-Length: {len(self)}\r\nConnection: keep-alive\r\n{more}\r\n"
        ).encode()

    def request(self, port: int, number: int, more: str = "") -> bytes:
        return self.request_head(port, more) + self.content(number)

    def of_session(self, number: int) -> Body:
        """The same in another conversation: with another id of the same length."""
        old = dict(self.headers).get(_SESSION, "")
        if not old:
            return self
        new = f"{number:08x}{old[8:]}"
        headers = tuple((name, value.replace(old, new)) for name, value in self.headers)
        head, tail = (part.replace(old.encode(), new.encode()) for part in (self.head, self.tail))
        return Body(self.name, self.path, headers, head, tail)


class Bodies:
    """All bodies of one run; made when asked for, kept."""

    def __init__(self) -> None:
        self._made: dict[str, Body] = {}
        (self._recorded,) = _largest(_CLAUDE)
        self._pairs = list(_conversations())

    def __getitem__(self, name: str) -> Body:
        """Return the body called ``name``: a key of SIZES, CHAT, or "N turns"."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Body:
        if name == CHAT:
            return self._chat()
        if name.endswith(" turns"):
            turns = int(name.removesuffix(" turns"))
            return self._body(name, self._grown([*islice(cycle(self._pairs), turns * _PAIRS)]))
        missing = SIZES[name] - len(self._recorded.body)
        large = missing > 0
        return self._body(
            name, self._grown(self._fill(missing)) if large else self._cut(SIZES[name])
        )

    def _body(self, name: str, content: bytes) -> Body:
        start = content.index(_CCH, content.index(HEADER)) + len(_CCH)
        return Body(
            name,
            self._recorded.target,
            _headers(self._recorded),
            content[:start],
            content[start + 5 :],
        )

    def _grown(self, more: list[bytes]) -> bytes:
        """The recorded body with ``more`` messages at the end of its conversation."""
        head, found, tail = self._recorded.body.partition(b'],"system":[')
        return b"".join([head, *more, found, tail])

    def _fill(self, size: int) -> list[bytes]:
        """As many pairs of messages as fit in ``size`` bytes."""
        smallest = min(map(len, self._pairs))
        found = []
        for pair in cycle(self._pairs):
            if size < smallest:
                break
            if len(pair) <= size:
                found.append(pair)
                size -= len(pair)
        return found

    def _cut(self, size: int) -> bytes:
        """The recorded body with tools, messages and words cut away until it has ``size`` bytes."""
        body = json.loads(self._recorded.body)
        excess = len(_dumps(body)) - size
        longest = max(body["tools"], key=lambda tool: len(tool["description"]))
        if excess < len(longest["description"]):
            longest["description"] = longest["description"][:-excess]
            return _dumps(body)
        body["tools"] = []
        body["messages"] = [{"role": "user", "content": "Dusu petip"}]
        blocks = body["system"]
        while (excess := len(_dumps(body)) - size) > 0 and len(blocks) > 1:
            text = blocks[-1]["text"]
            if excess < len(text):
                blocks[-1]["text"] = text[: len(text) - excess]
                break
            del blocks[-1]
        return _dumps(body)

    def _chat(self) -> Body:
        (recorded,) = _largest(_OPENAI)
        return Body(CHAT, recorded.target, _headers(recorded), recorded.body)


def _largest(pattern: str) -> Iterator[Request]:
    """Yield the largest request of each capture that matches."""
    for file in find_captures(pattern, __file__):
        yield max(load_capture(file), key=lambda request: len(request.body))


def _headers(request: Request) -> tuple[tuple[str, str], ...]:
    pairs = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers)
    return tuple((name, value) for name, value in pairs if name.lower() not in _OWN_HEADERS)


def _conversations() -> Iterator[bytes]:
    """Yield ``,assistant,user`` of every recorded Claude Code conversation, in turn."""
    for request in _largest("claude*.jsonl"):
        messages = [m for m in json.loads(request.body)["messages"] if m["role"] != "system"]
        for asked, said in zip(messages[2::2], messages[1::2], strict=False):
            yield b",%s,%s" % (_dumps(said), _dumps(asked))


def _dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
