"""The adapted request, and the entries of a server's list of adaptations with their calls."""

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
    """An attempt to mend a refusal."""

    name: str  #: the adaptation's name
    refusal: Refusal  #: the refusal that it was to mend
    before: Need | None  #: the adaptation's need before that


class Adapted:
    """One request, as adapted to one server."""

    __slots__ = (
        *("budget", "needs", "received", "refusal", "reports", "request", "resends", "taught"),
        "tried",
    )

    def __init__(self, received: Request, resends: int = 0) -> None:
        self.received = received  #: the request before any adaptation
        self.request = received  #: the request as it goes on
        self.needs: dict[str, Need] = {}  #: its needs, by the names of the adaptations
        self.taught: set[str] = set()  #: names of adaptations whose need a refusal has shown
        self.reports: tuple[RuleReport, ...] = ()  #: edits and failures of the adaptations
        self.resends = resends  #: number of times it was sent again
        self.refusal: Refusal | None = None  #: the last refusal, None if it could not be read
        self.tried: Tried | None = None  #: the last attempt to mend a refusal
        self.budget = Budget()  #: probes left, shared with the earlier attempts

    def take(self, name: str, step: Step) -> None:
        """Adopt the result of the adaptation ``name``."""
        self.request = step.request
        if step.need is not None:
            self.needs[name] = step.need
        if step.report is not None:
            self.reports += (step.report,)


class ListedAdaptation(NamedTuple):
    """One entry of a server's list of adaptations."""

    one: Adaptation  #: the adaptation
    learning: Learning | None  #: the same, if it learns about the server by itself
    given: Remembered | None  #: facts that it goes by from the start
    is_foreign: bool  #: whether a plugin brings it: called in a thread, with a deadline, on a copy
    probes: Callable[[Refusal, Request, Need | None], Probing] | None = None
    """Finds out by probes what was refused."""
    bound: Callable[[Turn | None], Adaptation] | None = None
    """Returns the adaptation for the requests of one turn, if it needs to know that."""

    def of(self, turn: Turn | None) -> ListedAdaptation:
        """Return the entry with its adaptation bound to ``turn``, if that is needed."""
        return self if self.bound is None else self._replace(one=self.bound(turn))


def entry_of(one: Adaptation, *, is_foreign: bool) -> ListedAdaptation:
    """Return ``one`` as an entry of the list; ``is_foreign``: whether a plugin brings it."""
    learning: Any = one if hasattr(one, "learn") and not is_foreign else None
    given = None if is_foreign else getattr(one, "given", None)
    more = (None if is_foreign else getattr(one, name, None) for name in ("probes", "bound"))
    return ListedAdaptation(one, learning, given, is_foreign, *more)


def adapt(each: ListedAdaptation, request: Request, remembered: Remembered) -> Step:
    """Edit ``request`` if the ``remembered`` facts make it necessary."""
    need = _need(each.one.needed(_shown(each, request), remembered))
    return Step(request) if need is None else made_step(each, request, need)


def made_step(each: ListedAdaptation, request: Request, need: Need) -> Step:
    """Edit ``request`` for ``need``; raises EditError if a plugin's edits are unusable."""
    name, found = each.one.name, each.one.edits(_shown(each, request), need)
    if not each.is_foreign:
        return made(name, request, found, need)
    edits: Iterable[Any] = found
    step = made(name, request, tuple(islice(edits, MOST_EDITS + 1)), need)
    if step.report is not None and len(step.report.edits) > MOST_EDITS:
        raise EditError(f"more than {MOST_EDITS:,} edits")
    if step.request.document is None:  # a Raw value need not be JSON
        raise EditError("no JSON is left")
    return step


def ask_step(each: ListedAdaptation, refusal: Refusal, request: Request, need: Need | None) -> Step:
    """Return a step with the need of ``request`` after ``refusal``."""
    return Step(request, _need(each.one.refused(refusal, _shown(each, request), need)))


def _need(found: Need | None) -> Need | None:
    if found is not None and not isinstance(found, Need):
        raise TypeError
    return found


def _shown(each: ListedAdaptation, request: Request) -> Request:
    return replace(request, memo=None) if each.is_foreign else request
