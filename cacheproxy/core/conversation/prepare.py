"""A request on its way up: through the rules, to its conversation, through the pins."""

from __future__ import annotations

from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.plan import Plan
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport, fold


class Prepared(NamedTuple):
    """A request ready to be sent, and where it belongs."""

    request: Request  #: as rules and pins left it
    reports: tuple[RuleReport, ...] = ()  #: what each rule did
    turn: Turn | None = None  #: where it belongs; None: it speaks no API that we know
    problems: tuple[tuple[str, str], ...] = ()
    """What session hooks did wrong, by hook, for the log."""

    @property
    def session(self) -> Session | None:
        """Whose conversation it is."""
        return self.turn.session if self.turn is not None else None


async def prepare(request: Request, plan: Plan, store: Store) -> Prepared:
    """Take ``request`` through the rules, and find out whose it is.

    It has been introduced to the plan's ``clients``. Nothing is changed in ``store``. To be driven
    by ``fold.run`` or ``fold.advance``.
    """
    own = plan.of(request)
    plain = await fold(request, own.plain)
    if request.dialect is None:
        return Prepared(plain.request, plain.reports)
    session, problems = await plan.session(plain.request, own)
    turn = store.find(session, plain.request, own.fields)
    if not turn.is_tried:
        plain.request.agreeing(turn.shared)
    pinned = await fold(plain.request, own.pins, turn.previous)
    if turn.is_tried and not _has_all_of(pinned.request, turn):
        turn = turn._replace(source=turn.source if turn.shared >= 0 else None)
        pinned = await fold(plain.request.agreeing(turn.shared), own.pins, turn.previous)
    # Where tools come and go, the server may still have the prompt with these.
    ready = await fold(pinned.request, own.of_tools, turn.with_same_tools)
    if ready.request is not plain.request:
        turn = turn._replace(prompt=prompt_of(ready.request))
    reports = plain.reports + pinned.reports + ready.reports
    return Prepared(ready.request, reports, turn, tuple(problems))


def _has_all_of(request: Request, turn: Turn) -> bool:
    """Whether ``request`` begins with the whole last one of the lane whose values were put back."""
    prompt, source = prompt_of(request), turn.source
    if prompt is None or source is None:
        return False
    messages = len(source.prompt.made.run.pieces)
    return Kinship(request, prompt).is_equal(source.prompt, messages)
