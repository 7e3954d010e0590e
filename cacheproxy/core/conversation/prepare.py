"""A request on its way up: through the rules, to its conversation, through the pins."""

from __future__ import annotations

from typing import NamedTuple

from cacheproxy.core.conversation.divergence import has_same_start
from cacheproxy.core.conversation.history import Source
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport, fold


class Prepared(NamedTuple):
    """A request ready to be sent, and its place in a conversation."""

    request: Request  #: request after rules and pins
    reports: tuple[RuleReport, ...] = ()  #: report on each rule that made edits, or failed
    turn: Turn | None = None  #: place of the request, None if its API is not known
    problems: tuple[tuple[str, str], ...] = ()
    """Problems of session hooks for the log: pairs of the hook's name and the problem."""

    @property
    def session(self) -> Session | None:
        """Session of the request."""
        return self.turn.session if self.turn is not None else None


async def prepare(request: Request, plan: Plan, store: Store) -> Prepared:
    """Return ``request`` after the rules and pins of ``plan``, and its place in ``store``.

    The caller has introduced it to the plan's ``clients``. ``store`` is only read. A driver runs
    this coroutine, by ``fold.run`` or ``fold.advance`` (see ``rules.fold``).
    """
    own = plan.of(request)
    plain = await fold(request, own.plain)
    if request.dialect is None:
        return Prepared(plain.request, plain.reports)
    session, problems = await plan.session(plain.request, own)
    request, reports = plain.request, plain.reports
    literals = own.fields.literals  # without one of them, no value can be put back, now or later
    restores = literals is None or not request.literals.present.isdisjoint(literals)
    turn = store.find(session, request, own.fields, restores=restores)
    if restores:
        source = turn.source
        if not source.is_tried:
            request.agreeing(source.shared)
        pinned = await fold(request, own.pins, turn.previous)
        if source.is_tried and _has_all_of(pinned.request, source):
            turn = turn._replace(source=source._replace(goes_on=True))
        elif source.is_tried:
            history = source.history if source.shared >= 0 else None
            turn = turn._replace(source=source._replace(history=history))
            pinned = await fold(request.agreeing(source.shared), own.pins, turn.previous)
        request, reports = pinned.request, reports + pinned.reports
    # The spelling of calls and tools has no information: an equal history is not required.
    before = tools = None
    if turn.lane is not None and turn.prompt is not None:
        before = turn.lane.request
        tools = turn.lane.others.get(turn.prompt.tools, before)
    if tools is before:
        ready = await fold(request, own.of_calls + own.of_tools, before)
    else:  # tools come and go: the server may still have the prompt with the same ones
        calls = await fold(request, own.of_calls, before)
        ready = await fold(calls.request, own.of_tools, tools)
        ready = ready._replace(reports=calls.reports + ready.reports)
    if ready.request is not plain.request:
        turn = turn._replace(prompt=prompt_of(ready.request))
    return Prepared(ready.request, reports + ready.reports, turn, tuple(problems))


def _has_all_of(request: Request, source: Source) -> bool:
    """Whether ``request``, with values put back, begins with the history's whole last request."""
    prompt, history = prompt_of(request), source.history
    if prompt is None or history is None:
        return False
    messages = len(history.prompt.made.run.pieces)
    return has_same_start(prompt, history.prompt, messages)
