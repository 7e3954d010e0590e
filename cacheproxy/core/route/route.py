"""The upstream of a request, and the next ones if that one does not take it.

The candidates are upstreams of the first matching route that suit the request by model, context,
price and health. Among these a conversation stays at the one with its prefix; a new one goes to the
one that its key belongs to (``ranked``), or to the fastest or cheapest.
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
"""Tokens of a context that a prompt has to leave for the answer; an eighth of a small context."""


@dataclass(frozen=True, slots=True)
class Route:
    """The upstreams of matching requests; a condition's default matches all."""

    name: str  #: name for people
    to: tuple[str, ...] = ()  #: names of upstreams, a pool if there are several; () for all
    client: str = "*"  #: a client's name, with ``*`` and ``?``
    model: str = "*"  #: a model's name, with ``*`` and ``?``
    has_tools: bool | None = None  #: whether the request names tools; None: either way
    least: int = 0  #: tokens of the prompt, at least
    most: int | None = None  #: tokens of the prompt, at most; None: no bound
    kinds: frozenset[RequestKind] = frozenset()  #: purposes of the request; none: any
    prefer: Preference = ""  #: criterion for a new conversation's upstream in a pool
    max_cost: float | None = None  #: cost of a prompt in the prices' currency, at most; None: any

    def matches(self, facts: Facts) -> bool:
        """Whether a request with these facts takes this route."""
        return (
            (not self.kinds or facts.kind in self.kinds)
            and (self.has_tools is None or self.has_tools is facts.has_tools)
            and self.least <= facts.tokens
            and (self.most is None or facts.tokens <= self.most)
            and fits(facts.model, self.model)
            and fits(facts.client, self.client)
        )


EVERYWHERE = Route("")
"""The route of a request that no other matches: to any upstream that is no fallback."""


def routes_of(routes: Iterable[Route], facts: Facts) -> Iterator[Route]:
    """Yield the matching ones of ``routes`` in their order, then EVERYWHERE."""
    yield from (route for route in routes if route.matches(facts))
    yield EVERYWHERE


@lru_cache(maxsize=1024)
def fits(name: str, pattern: str) -> bool:
    """Whether ``name`` matches ``pattern`` (``*``, ``?``, case counts); cached: there are few."""
    return pattern == "*" or fnmatchcase(name, pattern)


class Price(NamedTuple):
    """The price of a million tokens, in any currency."""

    prompt: float = 0.0  #: price of evaluated tokens
    output: float = 0.0  #: price of generated tokens
    cached: float | None = None
    """Price of reused tokens; None: the same as of evaluated ones."""

    def of_prompt(self, tokens: int, reused: int = 0) -> float:
        """Return the price of a prompt of ``tokens``, of which ``reused`` are cached."""
        reused = min(tokens, reused)
        cached = self.prompt if self.cached is None else self.cached
        return ((tokens - reused) * self.prompt + reused * cached) / _MILLION

    def of(self, tokens: int, reused: int, output: int) -> float:
        """Return the price of a prompt of ``tokens``, ``reused`` of them cached, and its answer."""
        return self.of_prompt(tokens, reused) + output * self.output / _MILLION


FREE = Price()


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """An upstream with the settings that a choice depends on."""

    name: str  #: name in the config file; "" for the only one
    models: tuple[str, ...] = ()  #: models that it serves, with ``*`` and ``?``; () for all
    price: Price = FREE  #: price of its tokens
    is_fallback: bool = False  #: whether it is used only if no other is up
    is_remote: bool = False  #: whether its requests leave this network

    def serves(self, model: str) -> bool:
        """Whether this upstream serves ``model``; "" (no model) fits any."""
        if not self.models or not model:
            return True
        return any(fits(model, pattern) for pattern in self.models)


class TargetState(NamedTuple):
    """The present state of a target."""

    is_up: bool = True  #: whether it takes connections
    context: int | None = None  #: tokens of one prompt, at most; None: not known
    speed: float | None = None  #: evaluated tokens a second; None: not known
    waiting: int = 0  #: number of its requests under way
    is_silent: bool = False
    """Whether it has stopped answering: others that answer get the new conversations."""


class KnownConversation(NamedTuple):
    """The facts on a conversation that a choice depends on."""

    key: str = ""  #: key of the conversation, see ``stamp.root_key``
    home: str = ""  #: name of the upstream that has its prefix, "" for none
    cached: int = 0  #: tokens of its prefix there


class UpstreamOrder(NamedTuple):
    """The order in which a request tries upstreams."""

    names: tuple[str, ...]  #: names of all of them
    spare: tuple[str, ...] = ()
    """Names of the fallbacks among them, used while all others of the route are down."""

    @property
    def is_fallback(self) -> bool:
        """Whether the first upstream is a fallback."""
        return self.names[:1] == self.spare[:1] != ()


def choose(
    targets: Sequence[Target],
    standing: Callable[[str], TargetState],
    facts: Facts,
    route: Route,
    known: KnownConversation,
) -> UpstreamOrder:
    """Return a request's upstreams in order; ``standing`` returns the state of the target named.

    Targets that are down come last, as they may have just come back. No names: all targets are too
    expensive for this route.
    """

    def cost(target: Target) -> float:
        cached = known.cached if target.name == known.home else 0
        return target.price.of_prompt(facts.tokens, cached)

    def seconds(name: str) -> float:
        """Return the seconds of prefill behind waiting requests; few if the speed is not known."""
        state = standing(name)
        if state.speed is None:
            return float(state.waiting)
        return (1 + state.waiting) * facts.tokens / state.speed

    def fitting(targets: list[Target]) -> list[Target]:
        """Return the suitable targets; if none has the model or the context, the closest ones."""
        serving = [one for one in targets if one.serves(facts.model)]
        serving = serving or [one for one in targets if not one.is_remote] or targets
        fit = [one for one in serving if _has_room(standing(one.name).context, facts.tokens)]
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


def _has_room(context: int | None, tokens: int) -> bool:
    return context is None or tokens + min(_ROOM, context // 8) <= context


def ranked(key: str, names: Iterable[str]) -> list[str]:
    """Return ``names``, best first for ``key``; the same in every process.

    Rendezvous hashing: every key has its own order of names. If a name goes away, only its own keys
    move, each to the next name in its own order, and so spread over all that are left (Thaler and
    Ravishankar, 1998).
    """
    return list(_ranked(key, tuple(names)))


@lru_cache(maxsize=4096)
def _ranked(key: str, names: tuple[str, ...]) -> list[str]:
    """Return the result of ``ranked``, cached: all turns of a conversation have the same key."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def _weight(key: str, name: str) -> bytes:
    text = f"{key}\0{name}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).digest()
