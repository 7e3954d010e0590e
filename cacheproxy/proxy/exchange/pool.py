"""The servers of a configuration, and the choice among them for a request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from twisted.logger import Logger

from cacheproxy.core.conversation.lanes import Home
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.profile import described
from cacheproxy.core.kinds.status import UpstreamState
from cacheproxy.core.route.facts import Facts, facts_of
from cacheproxy.core.route.route import (
    EVERYWHERE,
    KnownConversation,
    Route,
    Target,
    TargetState,
    choose,
    routes_of,
)
from cacheproxy.core.route.stamp import Stamp, root_key
from cacheproxy.proxy.exchange.adapting import Adapting
from cacheproxy.proxy.exchange.admission import Admission
from cacheproxy.proxy.probing.asker import Asker
from cacheproxy.proxy.probing.poller import Health
from cacheproxy.proxy.probing.profiling import Profiling
from cacheproxy.proxy.probing.proving import Proving
from cacheproxy.proxy.probing.warming import Warming
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.upstream.failures import BUSY, ELSEWHERE
from cacheproxy.proxy.upstream.upstream import Upstream

_log = Logger()
_DOWN, _UNABLE = "are down", "are down or do not speak Chat Completions"
"""Reasons for which a fallback stands in for all others, as the log words them."""


class Chosen(NamedTuple):
    """The servers that may get a request."""

    servers: tuple[Server, ...]  #: the servers, in the order in which they are tried
    route: str = ""  #: the name of the route taken
    was: str = ""  #: the name of the upstream that the turn before went to, "" for none
    spare: tuple[str, ...] = ()  #: names of the servers that stand in while the others are down

    @property
    def where(self) -> str:
        """Their names and URLs, for an error message; of a single server, only its URL."""
        if len(self.servers) == 1:
            return self.servers[0].upstream.url.text
        each = (f"{server.name} ({server.upstream.url.text})" for server in self.servers)
        return f"any of {', '.join(each)}"


class Servers:
    """The servers of a configuration; the first of ``routes`` that takes a request chooses.

    ``first``: the only server, or the first of the configuration. ``store``: the conversations.
    ``speed`` returns the prefill of the upstream at a URL in tokens a second, None if not known.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        routes: Sequence[Route],
        store: Store,
        speed: Callable[[str], float | None],
    ) -> None:
        self.all = tuple(servers)
        self.first = self.all[0]
        self._by_name = {server.name: server for server in servers}
        self._targets = [server.target for server in servers]
        self._routes = tuple(routes)
        self._asks_kind = any(route.kinds for route in routes)
        self._store = store
        self._speed = speed
        self._only = Chosen(self.all) if len(self.all) == 1 else None
        self._logged: set[tuple[str, str]] = set()

    @property
    def where(self) -> str:
        """Names and URLs of all servers, for an error message."""
        return ", ".join(f"{one.name} {one.upstream.url.text}".lstrip() for one in self.all)

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers' URLs."""
        return tuple([server.upstream.url.text for server in self.all])

    def warmed(self) -> dict[str, int]:
        """Return the number of tokens by which each server was warmed, by its URL."""
        return {
            server.upstream.url.text: server.warming.tokens
            for server in self.all
            if server.warming is not None
        }

    def at(self, url: str) -> Server | None:
        """Return the server at ``url``, None if there is none."""
        return next((one for one in self.all if one.upstream.url.text == url), None)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the servers' values for a page; [] if there is only one server."""
        return [] if self._only is not None else [server.as_dict() for server in self.all]

    def warnings(self) -> list[str]:
        """Return warnings about routes on which a move would change a conversation's model."""
        if self._only is not None:
            return []
        found = []
        usual = tuple(server.name for server in self.all if not server.target.is_fallback)
        for route in self._routes or (EVERYWHERE,):
            models = {
                name: server.model
                for name in route.to or usual
                if (server := self._by_name[name].profiling.profile.server) is not None
                and server.model is not None
            }
            if len(set(models.values())) > 1:
                each = ", ".join(f"{name} {model}" for name, model in models.items())
                what = f"the upstreams of route {route.name}" if route.name else "the upstreams"
                found.append(f"{what} serve different models: {each}")
        return found

    async def is_up(self) -> bool:
        """Return whether any server is up: several are polled already, a single one is now."""
        if self._only is None:
            return any(server.health.is_up for server in self.all)
        return await self.first.asker.is_up()

    def start(self) -> None:
        """Begin to poll whether the servers are up, if there are several."""
        if self._only is None:
            for server in self.all:
                server.health.start()

    def stop(self) -> None:
        """Stop polling and warming, and admit all waiting requests."""
        for server in self.all:
            server.health.stop()
            if server.admission is not None:
                server.admission.close()
            if server.warming is not None:
                server.warming.stop()

    def choose(self, prepared: Prepared) -> Chosen:
        """Return the servers for ``prepared``."""
        turn = prepared.turn
        if self._only is not None:
            return self._only._replace(was=_was(turn)) if self.first.name else self._only

        @cache
        def standing(name: str) -> TargetState:
            server = self._by_name[name]
            return server.standing(self._speed(server.upstream.url.text))

        facts, key, routes = Facts(), "", iter((EVERYWHERE,))
        if turn is not None:
            facts = facts_of(prepared.request, turn, with_kind=self._asks_kind)
            key, routes = root_key(prepared.request, turn.session), routes_of(self._routes, facts)
        for route in routes:
            home = None if turn is None else self._home(turn, route)
            known = KnownConversation(key, "" if home is None else home.name, _cached(turn))
            order = choose(self._targets, standing, facts, route, known)
            if not order.names:
                continue
            if order.is_fallback:
                self._log_fallback(order.names[0], route.name)
            else:
                self._logged.discard((route.name, _DOWN))
            servers = tuple([self._by_name[name] for name in order.names])
            return Chosen(servers, route.name, _was(turn), order.spare)
        raise AssertionError("the last route has no token limit")

    def may_go_on(
        self, chosen: Chosen, server: Server, after: Server | None, status: int | None
    ) -> bool:
        """Whether the request goes on to ``after``, the next of ``chosen``, after ``server``.

        ``status``: the status from ``server``, None if it refused the connection. A server that is
        only busy is not replaced by a fallback. A fallback that stands in is logged.
        """
        if after is None or status not in (None, *ELSEWHERE):
            return False
        if _stands_in(chosen, server, after):
            if status == BUSY:
                return False
            self._log_fallback(after.name, chosen.route)
        return True

    def pass_over(self, chosen: Chosen, server: Server, after: Server) -> None:
        """Log that ``after``, if it is a fallback, gets a request that ``server`` cannot serve."""
        if _stands_in(chosen, server, after):
            self._log_fallback(after.name, chosen.route, _UNABLE)

    def settle(self, chosen: Chosen, server: Server, turn: Turn, lane: int) -> None:
        """Record ``server`` as the home of the lane that ``turn`` belongs to."""
        start = server.profiling.profile.start
        self._store.settle(turn.session, lane, Home(server.name, chosen.route, start))

    def _home(self, turn: Turn, route: Route) -> Home | None:
        """Return the home of the prefix of ``turn``; None if its server was restarted since.

        A reload may have changed the server's name: then it is found by its URL.
        """
        home = self._store.home(turn, route.name)
        server = None if home is None else self._by_name.get(home.name)
        before = None if turn.lane is None else turn.lane.before
        if server is None and before is not None:
            server = self.at(before.upstream)
            home = None if server is None else Home(server.name, route.name, before.start)
        if home is None or server is None:
            return None
        start = server.profiling.profile.start
        return None if home.start is not None and start not in (None, home.start) else home

    def _log_fallback(self, name: str, route: str, why: str = _DOWN) -> None:
        """Log that requests go to the fallback ``name``, once for each ``route`` and ``why``.

        It is logged again after another server was up; a missing API is logged once.
        """
        if (route, why) in self._logged:
            return
        self._logged.add((route, why))
        _log.warn(
            "all other upstreams {of}{why}: requests go to {name}, which is {where}",
            of=f"of route {route} " if route else "",
            why=why,
            name=name,
            where="a fallback" if self._by_name[name].edits else "remote",
        )


def _stands_in(chosen: Chosen, server: Server, after: Server) -> bool:
    """Whether ``after`` is a fallback for ``server``."""
    return after.name in chosen.spare and server.name not in chosen.spare


def _was(turn: Turn | None) -> str:
    """Return the name of the upstream that the turn before went to, "" for none."""
    home = None if turn is None or turn.lane is None else turn.lane.home
    return "" if home is None else home.name


def _cached(turn: Turn | None) -> int:
    """Return the number of a conversation's tokens that its server has in its cache."""
    before = None if turn is None or turn.lane is None else turn.lane.before
    return 0 if before is None else before.tokens or 0


@dataclass(eq=False, slots=True)
class Server:
    """One model server, with the parts of the proxy that deal with it."""

    upstream: Upstream  #: its URL, and the connections to it
    translating: Translating  #: translates between its API and the client's
    asker: Asker  #: sends the probes of the parts below
    profiling: Profiling  #: learns its profile
    proving: Proving  #: gets the prompts as it rendered them, and its counters
    health: Health  #: whether it is up; polled if there are several servers
    target: Target  #: its settings that a route's choice goes by
    adapting: Adapting  #: adapts requests to it
    edits: bool = True  #: whether requests to it are edited, apart from the model's name
    stamp: Stamp = field(default_factory=Stamp)
    """Headers by which routers recognise a conversation."""
    max_context: int | None = None  #: tokens of a prompt at most; None: as the server reports
    admission: Admission | None = None  #: orders its requests; None: each is sent at once
    warming: Warming | None = None  #: sends prompts again after a restart; None: no warming

    under_way: set[Any] = field(default_factory=set)
    """Deliveries (``Delivery``) of the requests that it works on."""

    name: str = field(init=False)  #: its name in the configuration; "" if it is the only server

    def __post_init__(self) -> None:
        self.name = self.target.name

    @property
    def load(self) -> int:
        """Number of requests at the server, those that wait for admission included."""
        return self.health.waiting + (0 if self.admission is None else len(self.admission))

    @property
    def slots(self) -> float:
        """Number of prompts that the server works on at a time: inf if it batches, 1 if unknown."""
        profile = self.profiling.profile
        if kind_of(profile).serving.batches:
            return math.inf
        return (None if profile.server is None else profile.server.slots) or 1

    @property
    def knows_slots(self) -> bool:
        """Whether the server reports the number of its slots."""
        server = self.profiling.profile.server
        return server is not None and server.slots is not None

    @property
    def counts_streams(self) -> bool:
        """Whether the server's streams report usage without being asked to."""
        return kind_of(self.profiling.profile).serving.counts_streams

    def standing(self, speed: float | None) -> TargetState:
        """Return the server's state for a choice; ``speed``: prefill in tokens a second."""
        context = self.max_context or self.profiling.profile.memory.context
        health = self.health
        return TargetState(health.is_up, context, speed, self.load, health.is_silent)

    def as_dict(self) -> dict[str, Any]:
        """Return the server's values for a page."""
        profile, target, look = self.profiling.profile, self.target, self.profiling.last_look
        state = UpstreamState.UP if self.health.is_up else UpstreamState.DOWN
        if self.health.is_up and look is not None and look.state is UpstreamState.STRANGE:
            state = look.state
        return {
            "name": self.name,
            "url": self.upstream.url.text,
            "state": state,
            "says": profile.server.summary if profile.server is not None else "",
            "context": self.max_context or profile.memory.context,
            "waiting": self.load,
            "edits": self.edits,
            "fallback": target.is_fallback,
            "models": list(target.models),
            "words": self.words(),
        }

    def words(self) -> dict[str, str]:
        """Return the facts known of the server and the proxy's reaction to each, a line each."""
        found = self.adapting.words() | described(self.profiling.profile)
        return {name: text for name, text in found.items() if text}

    def refused(self) -> None:
        """Forget what was learned: the server refused a connection, another may replace it."""
        self.translating.forget()
        if self.edits:
            self.profiling.forget()
        if self.name:
            self.health.set(is_up=False)
