"""Which upstream a request goes to, and where next if that one does not take it.

The targets of its route that can take it: by model, by context, by price, by health. Among these a
conversation stays where its prefix is; a new one goes where its key belongs (``ranked``), or
where it is answered soonest or for the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from cacheproxy.core.route.facts import Facts
from cacheproxy.core.route.route import FREE, Price, Route, fits

_ROOM = 512
"""Tokens of a context that are left for the answer, at least: else the prompt has outgrown it."""


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
    named = [one for one in targets if not route.to or one.name in route.to]
    mine = [one for one in named if not one.is_fallback] or named
    spare = [one for one in named if one not in mine] or [
        one for one in targets if one.is_fallback and one not in mine
    ]
    fit = _fitting(mine, standing, facts, route, known)
    up = [one for one in fit if standing(one.name).is_up]
    down = [one.name for one in fit if one not in up] if len(up) < len(fit) else []
    others = [
        one.name
        for one in (_fitting(spare, standing, facts, route, known) if spare else ())
        if standing(one.name).is_up and one.serves(facts.model)
    ]
    if up or not others:
        first = _ordered(up, standing, facts, route, known)
        return UpstreamOrder((*first, *others, *ranked(known.key, down)), tuple(others))
    return UpstreamOrder((*others, *ranked(known.key, down)), tuple(others))


def _fitting(
    targets: list[Target],
    standing: Callable[[str], TargetState],
    facts: Facts,
    route: Route,
    known: KnownConversation,
) -> list[Target]:
    """Return those that can take it; where none has the model or the room, who comes closest."""
    serving = [one for one in targets if one.serves(facts.model)]
    serving = serving or [one for one in targets if not one.is_remote] or targets
    fit = [one for one in serving if _fits(standing(one.name).context, facts.tokens)]
    if not fit and serving:
        widest = max(standing(one.name).context or 0 for one in serving)
        fit = [one for one in serving if (standing(one.name).context or 0) == widest]
    if route.max_cost is None:
        return fit
    return [one for one in fit if _cost(one, facts, known) <= route.max_cost]


def _fits(context: int | None, tokens: int) -> bool:
    return context is None or tokens + min(_ROOM, context // 8) <= context


def _ordered(
    targets: list[Target],
    standing: Callable[[str], TargetState],
    facts: Facts,
    route: Route,
    known: KnownConversation,
) -> list[str]:
    names = ranked(known.key, [one.name for one in targets])
    if route.prefer == "cost":
        costs = {one.name: _cost(one, facts, known) for one in targets}
        names.sort(key=costs.__getitem__)
    elif route.prefer == "latency":
        names.sort(key=lambda name: _seconds(standing(name), facts))
    names.sort(key=lambda name: standing(name).is_silent)
    if known.home in names:
        names.remove(known.home)
        names.insert(0, known.home)
    return names


def _cost(target: Target, facts: Facts, known: KnownConversation) -> float:
    return target.price.of_prompt(facts.tokens, known.cached if target.name == known.home else 0)


def _seconds(standing: TargetState, facts: Facts) -> float:
    """Return how long the prompt takes there, behind those that wait; one of no speed is tried."""
    if standing.speed is None:
        return float(standing.waiting)
    return (1 + standing.waiting) * facts.tokens / standing.speed


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
