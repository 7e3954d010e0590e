"""Held answers: they go on although their client has left, until it sends the request again.

Agents give up during a long prefill and send the same request again, at once or seconds later. The
server would begin anew, or read the prompt in another slot. So the answer goes on for a while, and
an equal request takes it over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from twisted.internet.error import ConnectionAborted
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from cacheproxy.core.conversation.owner import Owners
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.http1.headers import lasting
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.pool import Server, Servers
from cacheproxy.record.exchange import Exchange

_UNEQUAL = ("stream", "stream_options", "client_metadata")
"""Members in which a retry may differ, if its dialect can give the answer in the form wanted."""
_LOOKS = 0.5
"""Seconds between two looks at the requests that wait beside held answers."""
_PATIENCE, _BESIDE = 1.0, 5.0
"""Seconds that others wait at most for a first token beside a held prefill: if there are more
requests than slots, and if a slot is free. Even then the held one may take all of each batch:
llama.cpp fills it from the lowest slot on, vLLM from the prompt that came first."""

_WORTH = 0.01
"""Part of the time that a held prefill has taken, for which others wait for its retry as well: Qwen
Code sends it after a second, and a quarter of an hour would be lost with it."""


def patience_of(took: float, *, is_full: bool) -> float:
    """Return the seconds that others wait for the retry of a prefill that has taken ``took``."""
    return min(max(_PATIENCE, _WORTH * took), _BESIDE) if is_full else _BESIDE


class Holdable(Protocol):
    """The part of ``Answer`` that ``Holding`` needs; see there."""

    server: Server
    record: Exchange
    session: Session
    request: Request
    original: Request
    left: float
    since: float
    size: int
    is_running: bool
    is_final: bool

    @property
    def is_attached(self) -> bool:
        """Whether the answer has a delivery."""

    @property
    def is_refusal(self) -> bool:
        """Whether the answer is a whole refusal that the same request would get again."""

    def move_to(self, server: Server) -> None:
        """Replace the answer's server by ``server``."""

    def wait_until(self, moment: float) -> None:
        """Set ``moment``, in seconds of the clock, as the end of waiting for a retry."""

    def end(self, why: str) -> None:
        """Close the answer; ``why`` is logged."""


def asks_the_same(one: Request, other: Request) -> bool:
    """Whether two requests are equal, apart from the answer's form and the JSON's spelling."""
    if one.method != other.method or one.target != other.target:
        return False
    if one.body == other.body:
        return True
    wish, others = _wish(one), _wish(other)
    if wish is not None and (one.dialect is None or one.dialect.whole is None):
        return False  # the dialect cannot turn one form of its answers into the other
    try:
        return wish is not None and _are_equal(wish, others)
    except RecursionError:
        return False


def _wish(request: Request) -> dict[str, Any] | None:
    body = request.json
    return None if body is None else {key: body[key] for key in body if key not in _UNEQUAL}


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; True is not 1. Memoised messages are the same object."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(one == other)


def _is_retry(one: Holdable, received: Request, request: Request, owners: Owners) -> bool:
    """Whether ``received`` is a retry for ``one``; ``request``: the same after the rules.

    Its owner, headers and body are equal, and the answer can be given in the form it asks for.
    """
    first = one.record.received
    return (
        owners.of(received, by_address=True) == owners.of(first, by_address=True)
        and lasting(received.headers, owners.ignores) == lasting(first.headers, owners.ignores)
        and asks_the_same(one.request, request if one.server.edits else received)
        and (one.is_final or _can_be_given_to(one, received))
    )


def _give_way(one: Holdable, session: Session | None) -> None:
    """End ``one``, whose server is needed for a prompt of ``session``."""
    goes_on = session is not None and session.first == one.session
    why = "its conversation went on" if goes_on else "another conversation needs the server"
    one.end(why)


def _can_be_given_to(one: Holdable, received: Request) -> bool:
    dialect, asked = received.dialect, one.original.json
    if dialect is None or asked is None or received.json is None:
        return True
    return dialect.can_regive(asked, received.json, one.server.counts_streams)


class Holding:
    """The held answers of the process; a reload keeps them, since a retry may come after it.

    ``progressed``: see ExchangeContext. ``is_closed``: whether the proxy stops.
    """

    def __init__(
        self,
        clock: Any,
        progressed: Callable[[Exchange, Progress | None, float | None], None] = lambda *_: None,
    ) -> None:
        self.clock, self.progressed = clock, progressed
        self.is_closed = False
        self.held: list[Holdable] = []  #: the held answers, in the order in which clients left
        self.seconds = 0.0  #: seconds that an answer waits for its retry; 0: nothing is held
        self.most = 0  #: bytes of memory that they may take together
        self.size = 0  #: bytes of memory that they take
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock

    def adopt(self, seconds: float, most: int, servers: Servers) -> None:
        """Adopt the settings and servers of a new configuration, also for the answers held now."""
        self.seconds, self.most = seconds, most
        for one in tuple(self.held):
            server = servers.at(one.server.upstream.url.text)
            if server is None or server.edits != one.server.edits or not seconds:
                one.end("the configuration has changed")
                continue
            one.move_to(server)
            one.wait_until(one.left + seconds)
        self._make_room()

    def takes(self, one: Holdable, record: Exchange, gone: Failure | None) -> bool:
        """Whether ``one`` may be held without the client of ``record``.

        ``gone``: how the client left; None: it is there and gets a deferred error.
        """
        if not self.seconds or self.is_closed or not record.turn:
            return False
        if gone is None:
            return one.is_refusal
        # Not at a remote server, which bills each token. Nor after a connection that the proxy cut
        # off itself, because it stops or the client reads too slowly.
        return one.server.edits and not gone.check(ConnectionAborted)

    def add(self, one: Holdable) -> None:
        """Add ``one``; if all take too much memory, the answers held longest are ended."""
        self.held.append(one)
        self.size += one.size
        self._make_room()
        if self.held and not self._looking.running:
            self._looking.start(_LOOKS, now=False)

    def remove(self, one: Holdable) -> None:
        """Remove ``one``."""
        self.held.remove(one)
        self.size -= one.size
        if not self.held and self._looking.running:
            self._looking.stop()

    def joined(
        self,
        received: Request,
        request: Request,
        session: Session,
        owners: Owners,
        servers: Collection[Server],
    ) -> Holdable | None:
        """Return the held answer for which the request is a retry, the oldest; None if none is.

        ``received``: the request; ``request``: the same after the rules. ``servers``: the servers
        that it may go to.
        """
        for one in self.held:
            # A conversation uses one API; without a session id, others may have equal prompts.
            if one.session != session.first or one.record.received.path != received.path:
                continue
            if one.is_attached or one.server not in servers:  # a refusal is being delivered
                continue
            if _is_retry(one, received, request, owners):
                return one
        return None

    def make_way(self, server: Server, session: Session | None) -> None:
        """End held answers for which ``server``, as it gets a prompt of ``session``, has no slot.

        If its number of slots is not known, ``_look`` ends them once a request has to wait.
        """
        if not server.knows_slots:
            return
        for one in tuple(self.held):
            if server.health.waiting <= server.slots:
                return
            if one.is_running and one.server is server:
                _give_way(one, session)

    def _look(self) -> None:
        """End held answers that make other requests wait."""
        now = self.clock.seconds()
        for server in {one.server for one in self.held if one.is_running}:
            waiting = [one for one in server.under_way if one.waits]
            if not waiting:
                continue
            first = min(waiting, key=lambda one: one.started)
            for one in tuple(self.held):
                if not one.is_running or one.server is not server:
                    continue
                is_full = server.health.waiting > server.slots
                patience = patience_of(one.left - one.since, is_full=is_full)
                if now - max(first.started, one.left) >= patience:
                    _give_way(one, first.session)

    def _make_room(self) -> None:
        while self.size > self.most and self.held:
            self.held[0].end("too much is held")

    def close(self) -> None:
        """End all held answers, and hold none from now on."""
        self.is_closed = True
        for one in tuple(self.held):
            one.end("the proxy stops")
