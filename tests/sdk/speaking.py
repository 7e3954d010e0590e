"""A scripted chat server for what a random model cannot produce.

The request's model names a ``Case``: what the server says, whole or as events, and what a client
of Anthropic's API has to end up with. ``None`` there: its SDK has to raise.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.proxy.harness import CHUNKED, Peer, Received, Upstream, whole

Json = dict[str, Any]
PATH = b"/v1/chat/completions"
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 60},
}
COUNTED = {"prompt": 100, "output": 7}
UNCOUNTED = {"prompt": 0, "output": 0}
ODD = '{"b" : 1.50,\n "a":"\\u00e9\\ud83d\\ude00/\\/", "n": 1E2}'
"""A model's own spelling: spaces, escapes, numbers, keys in no order."""
ODD_VALUE = {"b": 1.5, "a": "é\U0001f600//", "n": 100}
WORDS = "Ĝi estas \U0001f9ea — “naïve”. 漢字 e\u0301"


@dataclass(frozen=True)
class Case:
    """``answer``: the whole answer's body, if there is one; ``events``: those of a stream.

    ``expected``: what the client's SDK says of it, see ``translated``; ``raises``: a word of the
    exception of a stream that has to fail. ``piece``: the bytes of each chunk that the stream
    comes in, 0 for one event each. ``end``: of a stream's body, ``whole``, ``fin`` or ``rst``.
    """

    answer: Json | None = None
    events: tuple[bytes, ...] = ()
    expected: Json | None = None
    raises: str | None = None
    piece: int = 0
    end: str = "whole"
    status: bytes = b"200 OK"
    fields: tuple[bytes, ...] = ()


def data(value: Json | str, name: str = "") -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


class Speaking(Upstream):
    """Answers by its cases; ``bodies`` has what came, by model."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.bodies: dict[str, list[bytes]] = defaultdict(list)
        self._cases = cases
        self.reset(self._answer)

    def _answer(self, peer: Peer, received: Received) -> None:
        asked = json.loads(received.body or b"{}")
        case = self._cases.get(asked.get("model"))
        if (
            case is None or received.line.split(b" ")[1] != PATH
        ):  # the proxy wants to know what server this is
            peer.send(whole(b"{}", status=b"404 Not Found"))
            return
        self.bodies[asked["model"]].append(received.body)
        if case.status != b"200 OK" or not asked.get("stream"):
            body = json.dumps(case.answer).encode()
            kind = b"Content-Type: application/json"
            peer.send(whole(body, kind, *case.fields, status=case.status))
            return
        peer.send(CHUNKED)
        for piece in _pieces(case):
            peer.chunk(piece)
        if case.end == "whole":
            peer.send(b"0\r\n\r\n")
        elif case.end == "rst":
            peer.wait_closed(0.1)  # else the reset would overtake the data
            peer.reset()


def _pieces(case: Case) -> Iterable[bytes]:
    if not case.piece:
        return case.events
    stream = b"".join(case.events)
    return (stream[at : at + case.piece] for at in range(0, len(stream), case.piece))
