"""What the proxy remembers of each session between its turns, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request

_MOST_SESSIONS = 10_000
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """One lane of a session: its turns so far, and the last one's request."""

    turns: int = 0
    request: Request | None = None


class SessionMemory:
    """Least recently used sessions go first, by count and by the bytes of requests kept.

    A session has lanes: requests with tools and requests without do not extend each other (a
    title request between two turns), so each kind remembers its own. Requests are kept only
    where a rule looks at them (``keep_requests``).
    """

    def __init__(self, *, keep_requests: bool) -> None:
        self.keep_requests = keep_requests
        self._lanes: OrderedDict[tuple[str, ...], Memory] = OrderedDict()
        self._bytes = 0

    def recall(self, session: Session, request: Request) -> Memory:
        """Return what is known of the lane that ``request`` belongs to."""
        return self._lanes.get(_lane_of(session, request), Memory())

    def sent(self, session: Session, request: Request) -> int:
        """Note that ``request`` went upstream; return which turn of its lane it is, from 1."""
        key = _lane_of(session, request)
        before = self._lanes.get(key)
        turn = before.turns + 1 if before is not None else 1
        self._put(key, Memory(turn, request if self.keep_requests else None))
        return turn

    def _put(self, key: tuple[str, ...], memory: Memory) -> None:
        self._forget(key)
        self._lanes[key] = memory
        self._bytes += _size(memory)
        while len(self._lanes) > 1 and (
            len(self._lanes) > _MOST_SESSIONS or self._bytes > _MOST_BYTES
        ):
            self._forget(next(iter(self._lanes)))

    def _forget(self, key: tuple[str, ...]) -> None:
        memory = self._lanes.pop(key, None)
        if memory is not None:
            self._bytes -= _size(memory)


def _lane_of(session: Session, request: Request) -> tuple[str, ...]:
    has_tools = bool((request.json or {}).get("tools"))
    return (session.client, session.id, request.dialect or "", "tools" if has_tools else "")


def _size(memory: Memory) -> int:
    request = memory.request
    if request is None:
        return 0
    return request.document.cost if request.document is not None else len(request.body)
