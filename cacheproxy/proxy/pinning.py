"""Requests that name the slot they want (llama-server's ``id_slot``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from twisted.internet.threads import deferToThreadPool

from cacheproxy.core.affinity import Pieces, Slots, pieces_of
from cacheproxy.core.dialect import ANTHROPIC, OLLAMA
from cacheproxy.core.prompt import prompt_of
from cacheproxy.core.request import Request
from cacheproxy.core.session import Session
from cacheproxy.proxy.probe import probe
from cacheproxy.proxy.upstream import Upstream

_THREAD_ABOVE = 128 << 10
_WITHOUT = (None, ANTHROPIC, OLLAMA)
"""APIs on which a server has no slots, or silently drops their names."""


class SlotSource(Protocol):
    """Who gives out the slots."""

    async def assign(self, conversation: str, pieces: Pieces) -> int | None:
        """Return the slot for a request, None if it may have any."""

    def forget(self) -> None:
        """The upstream was down, and its slots are empty."""


class UpstreamSlots:
    """The slots of one upstream, which is asked how many it has."""

    def __init__(self, upstream: Upstream, reactor: Any) -> None:
        self._upstream = upstream
        self._reactor = reactor
        self._slots: Slots | None = None

    async def assign(self, conversation: str, pieces: Pieces) -> int | None:
        """Return the slot for a request, None if there are fewer than two."""
        if self._slots is None:
            server = await probe(self._upstream, self._reactor)
            if server is not None and self._slots is None:
                self._slots = Slots(server.slots or 0)
        return None if self._slots is None else self._slots.assign(conversation, pieces)

    def forget(self) -> None:
        """Count the slots anew."""
        self._slots = None


class Pinning:
    """Gives each conversation a slot of the upstream."""

    def __init__(self, slots: SlotSource, reactor: Any) -> None:
        self.slots = slots
        self._reactor = reactor

    async def pin(self, session: Session, received: Request, sent: Request) -> Request:
        """Return ``sent`` with its slot. ``received``: the same before it was translated."""
        if sent.dialect in _WITHOUT or not sent.body.lstrip().startswith(b"{"):
            return sent
        if "id_slot" in (received.json or {"id_slot": None}):
            return sent
        if len(received.body) <= _THREAD_ABOVE:
            pieces = _pieces(received)
        else:
            pool = self._reactor.getThreadPool()
            pieces = await deferToThreadPool(self._reactor, pool, _pieces, received)
        slot = await self.slots.assign(f"{session.client}/{session.id}", pieces)
        return sent if slot is None else with_slot(sent, slot)

    def forget(self) -> None:
        """Count the slots anew: the upstream was down, and its slots are empty."""
        self.slots.forget()


def with_slot(request: Request, slot: int) -> Request:
    """Return ``request``, whose body is a JSON object, with ``id_slot`` at its head."""
    members = request.body.lstrip()[1:].lstrip()
    comma = b"" if members.startswith(b"}") else b","
    return replace(request, body=b'{"id_slot":%d%s%s' % (slot, comma, members))


def _pieces(request: Request) -> Pieces:
    prompt = prompt_of(request)
    return pieces_of(prompt) if prompt is not None else ()
