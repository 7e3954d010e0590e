"""A route: which requests it is for, and where they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal, NamedTuple

from cacheproxy.core.document.edits import Edit, EditError, splice, splices_of
from cacheproxy.core.document.pointer import PathError
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.facts import Facts, RequestKind
from cacheproxy.core.rules.fold import RuleReport

Preference = Literal["", "latency", "cost"]
_MILLION = 1e6
NAME = "model"
"""What it goes by in logs and pages, as a rule does."""
_WHY = "the name that this upstream has for its model"


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


def asking_for(request: Request, model: str) -> tuple[Request, RuleReport | None]:
    """Return ``request`` asking for ``model``, and what was edited; as it came if it names none."""
    document = request.document
    named = (request.json or {}).get("model")
    if document is None or not isinstance(named, str) or named == model:
        return request, None
    edit = Edit("/model", model, _WHY)
    try:
        splices = splices_of(document, [edit])
    except (EditError, PathError) as error:  # law 4: a member that is there twice
        return request, RuleReport(NAME, error=str(error))
    return request.with_body(splice(document.body, splices), splices), RuleReport(NAME, (edit,))
