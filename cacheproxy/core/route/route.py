"""Which upstream a request goes to, and where next if that one does not take it.

Asked are those of the first route that matches, as far as they can take it: by model, by context,
by price, by health. Among these a conversation stays where its prefix is; a new one goes where its
key belongs (``ranked``), or where it is answered soonest or for the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple

from cacheproxy.core.route.facts import Facts, RequestKind

Preference = Literal["", "latency", "cost"]
_MILLION = 1e6
_ROOM = 512
"""Tokens of a context that are left for the answer, at least: else the prompt has outgrown it."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where requests go that match; what is not said matches all."""

    name: str  #: for people
    to: tuple[str, ...] = ()  #: names of upstreams, a pool if there are several; () for all
    client: str = "*"  #: a client's name, with ``*`` and ``?``
    model: str = "*"  #: a model's name, with ``*`` and ``?``
    has_tools: bool | None = None  #: whether the request names tools; None: either way
    least: int = 0  #: tokens of the prompt, at least
    most: int | None = None  #: tokens of the prompt, at most; None: no bound
    kinds: frozenset[RequestKind] = frozenset()  #: what the request is for; none: anything
    prefer: Preference = ""  #: where a new conversation goes in a pool
    max_cost: float | None = None  #: of one prompt, in the currency of the prices; None: no bound

    def matches(self, facts: Facts) -> bool:
        """Whether a request of these facts takes this route."""
        return (
            (not self.kinds or facts.kind in self.kinds)
            and (self.has_tools is None or self.has_tools is facts.has_tools)
            and self.least <= facts.tokens
            and (self.most is None or facts.tokens <= self.most)
            and fits(facts.model, self.model)
            and fits(facts.client, self.client)
        )


EVERYWHERE = Route("")
"""Of a request that no route matches: to any upstream that is no fallback."""


def routes_of(routes: Iterable[Route], facts: Facts) -> Iterator[Route]:
    """Yield those of ``routes`` that match, in their order, and EVERYWHERE."""
    yield from (route for route in routes if route.matches(facts))
    yield EVERYWHERE


@lru_cache(maxsize=1024)
def fits(name: str, pattern: str) -> bool:
    """Whether ``name`` is what ``pattern`` describes; the same few are asked for all the time."""
    return pattern == "*" or fnmatchcase(name, pattern)


class Price(NamedTuple):
    """What a million tokens cost, in whatever currency."""

    prompt: float = 0.0  #: for tokens that are evaluated
    output: float = 0.0  #: for generated tokens
    cached: float | None = None
    """For tokens that the server has already; None: as much as for others."""

    def of_prompt(self, tokens: int, reused: int = 0) -> float:
        """Return the price of a prompt, ``reused`` of whose tokens it has."""
        reused = min(tokens, reused)
        cached = self.prompt if self.cached is None else self.cached
        return ((tokens - reused) * self.prompt + reused * cached) / _MILLION

    def of(self, tokens: int, reused: int, output: int) -> float:
        """Return the price of a prompt and its answer."""
        return self.of_prompt(tokens, reused) + output * self.output / _MILLION


FREE = Price()


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """An upstream, as far as a choice looks at it."""

    name: str  #: as configured; "" for the only one
    models: tuple[str, ...] = ()  #: those it serves, with ``*`` and ``?``; () for all
    price: Price = FREE  #: what its tokens cost
    is_fallback: bool = False  #: only where no other is up
    is_remote: bool = False  #: what goes there leaves this network

    def serves(self, model: str) -> bool:
        """Whether it has ``model``; a request that names none goes anywhere."""
        if not self.models or not model:
            return True
        return any(fits(model, pattern) for pattern in self.models)


class TargetState(NamedTuple):
    """How a target is doing now."""

    is_up: bool = True  #: whether it takes connections
    context: int | None = None  #: tokens of one prompt; None: not known
    speed: float | None = None  #: evaluated tokens a second; None: not known
    waiting: int = 0  #: requests under way there
    is_silent: bool = False
    """It answers nothing, so that it gets no new conversations while others do."""


class KnownConversation(NamedTuple):
    """What is known of a conversation."""

    key: str = ""  #: see ``key.root_key``
    home: str = ""  #: the name of the upstream that has its prefix, "" for none
    cached: int = 0  #: tokens of its prefix there


class UpstreamOrder(NamedTuple):
    """Names of upstreams, in the order in which they are asked."""

    names: tuple[str, ...]  #: all of them
    spare: tuple[str, ...] = ()
    """Fallbacks among them, which stand in while all those of the route are down."""

    @property
    def is_fallback(self) -> bool:
        """Whether the first of them is one."""
        return self.names[:1] == self.spare[:1] != ()


def choose(
    targets: Sequence[Target],
    standing: Callable[[str], TargetState],
    facts: Facts,
    route: Route,
    known: KnownConversation,
) -> UpstreamOrder:
    """Return where a request goes; ``standing`` returns how the target of a name is doing.

    Those that are down come only where nothing else is left: it may be they have just come back.
    No names: all are too dear for this route.
    """

    def cost(target: Target) -> float:
        cached = known.cached if target.name == known.home else 0
        return target.price.of_prompt(facts.tokens, cached)

    def seconds(name: str) -> float:
        """Return how long it takes there, behind those that wait; one of no speed is tried."""
        state = standing(name)
        if state.speed is None:
            return float(state.waiting)
        return (1 + state.waiting) * facts.tokens / state.speed

    def fitting(targets: list[Target]) -> list[Target]:
        """Return who can take it; where none has the model or the room, who comes closest."""
        serving = [one for one in targets if one.serves(facts.model)]
        serving = serving or [one for one in targets if not one.is_remote] or targets
        fit = [one for one in serving if _fits(standing(one.name).context, facts.tokens)]
        if not fit and serving:
            widest = max(standing(one.name).context or 0 for one in serving)
            fit = [one for one in serving if (standing(one.name).context or 0) == widest]
        return [one for one in fit if route.max_cost is None or cost(one) <= route.max_cost]

    named = [one for one in targets if not route.to or one.name in route.to]
    mine = [one for one in named if not one.is_fallback] or named
    spare = [one for one in named if one not in mine] or [
        one for one in targets if one.is_fallback and one not in mine
    ]
    fit = fitting(mine)
    up = [one for one in fit if standing(one.name).is_up]
    down = [one.name for one in fit if one not in up]
    others = [
        one.name for one in fitting(spare) if standing(one.name).is_up and one.serves(facts.model)
    ]
    first: list[str] = []
    if up or not others:
        first = ranked(known.key, [one.name for one in up])
        if route.prefer == "cost":
            costs = {one.name: cost(one) for one in up}
            first.sort(key=costs.__getitem__)
        elif route.prefer == "latency":
            first.sort(key=seconds)
        first.sort(key=lambda name: (name != known.home, standing(name).is_silent))
    return UpstreamOrder((*first, *others, *ranked(known.key, down)), tuple(others))


def _fits(context: int | None, tokens: int) -> bool:
    return context is None or tokens + min(_ROOM, context // 8) <= context


def ranked(key: str, names: Iterable[str]) -> list[str]:
    """Return ``names``, best first for ``key``; the same in every process.

    Rendezvous hashing: every key has its own order of names. Where one goes away, only its own keys
    go elsewhere, to the next name in their own order, so that they spread over all that are left
    (Thaler and Ravishankar, 1998).
    """
    return list(_ranked(key, tuple(names)))


@lru_cache(maxsize=4096)
def _ranked(key: str, names: tuple[str, ...]) -> list[str]:
    """All turns of a conversation ask the same."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def _weight(key: str, name: str) -> bytes:
    text = f"{key}\0{name}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).digest()
