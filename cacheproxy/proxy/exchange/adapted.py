"""One request as adaptations leave it, and one adaptation of a server's list, called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from cacheproxy.core.adapt.adaptation import (
    Adaptation,
    Learning,
    Need,
    Refusal,
    Remembered,
    Step,
    made,
)
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.document.edits import EditError
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import MOST_EDITS, RuleReport
from cacheproxy.proxy.exchange.probes import Budget, Probing


class Tried(NamedTuple):
    """What was done against a refusal."""

    name: str  #: of the adaptation
    refusal: Refusal  #: that it was to heal
    before: Need | None  #: what the request needed of it before


class Adapted:
    """One request as one server gets it."""

    __slots__ = (
        *("budget", "needs", "received", "refusal", "reports", "request", "resends", "taught"),
        "tried",
    )

    def __init__(self, received: Request, resends: int = 0) -> None:
        self.received = received  #: before any adaptation
        self.request = received  #: as it goes on
        self.needs: dict[str, Need] = {}  #: by the names of the adaptations
        self.taught: set[str] = set()  #: names of those whose need the server's refusals taught
        self.reports: tuple[RuleReport, ...] = ()  #: what was edited, or failed
        self.resends = resends  #: how often it was sent again
        self.refusal: Refusal | None = None  #: the last one, where it could be read
        self.tried: Tried | None = None  #: what was edited last
        self.budget = Budget()  #: of probes, with those of the attempts before

    def take(self, name: str, step: Step) -> None:
        """Go on as the adaptation ``name`` has left it."""
        self.request = step.request
        if step.need is not None:
            self.needs[name] = step.need
        if step.report is not None:
            self.reports += (step.report,)


class ListedAdaptation(NamedTuple):
    """One adaptation of the list."""

    one: Adaptation  #: itself
    learning: Learning | None  #: the same, if it knows of the server by itself
    given: Remembered | None  #: what is remembered from the start
    is_foreign: bool  #: it is a plugin's, which gets a thread, a deadline and its own parsed JSON
    probes: Callable[[Refusal, Request, Need | None], Probing] | None = None
    """Finds by requests of our own what was refused."""
    bound: Callable[[Turn | None], Adaptation] | None = None
    """Returns it for the requests of one turn, which it needs to know."""

    def of(self, turn: Turn | None) -> ListedAdaptation:
        """Return it as it is for ``turn``."""
        return self if self.bound is None else self._replace(one=self.bound(turn))


def entry_of(one: Adaptation, *, is_foreign: bool) -> ListedAdaptation:
    """Return ``one`` as an entry of the list; ``is_foreign``: a plugin brings it."""
    learning: Any = one if hasattr(one, "learn") and not is_foreign else None
    given = None if is_foreign else getattr(one, "given", None)
    more = (None if is_foreign else getattr(one, name, None) for name in ("probes", "bound"))
    return ListedAdaptation(one, learning, given, is_foreign, *more)


def adapt(each: ListedAdaptation, request: Request, remembered: Remembered) -> Step:
    """Edit ``request`` by what is remembered."""
    need = _need(each.one.needed(_shown(each, request), remembered))
    return Step(request) if need is None else made_step(each, request, need)


def made_step(each: ListedAdaptation, request: Request, need: Need) -> Step:
    """Edit ``request``."""
    name, found = each.one.name, each.one.edits(_shown(each, request), need)
    if not each.is_foreign:
        return made(name, request, found, need)
    edits: Iterable[Any] = found
    step = made(name, request, tuple(islice(edits, MOST_EDITS + 1)), need)
    if step.report is not None and len(step.report.edits) > MOST_EDITS:
        raise EditError(f"more than {MOST_EDITS:,} edits")
    if step.request.document is None:  # a Raw may be anything
        raise EditError("no JSON is left")
    return step


def ask_step(each: ListedAdaptation, refusal: Refusal, request: Request, need: Need | None) -> Step:
    """Ask what ``request`` needs after ``refusal``."""
    return Step(request, _need(each.one.refused(refusal, _shown(each, request), need)))


def _need(found: Need | None) -> Need | None:
    if found is not None and not isinstance(found, Need):
        raise TypeError
    return found


def _shown(each: ListedAdaptation, request: Request) -> Request:
    return replace(request, memo=None) if each.is_foreign else request
