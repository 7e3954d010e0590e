"""A request on its way up: through the rules, to its conversation, through the pins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store, Turn
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import Report, fold
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.core.rules.session_hook import SessionHook, asked


class Prepared(NamedTuple):
    """A request ready to be sent, and where it belongs (None: it speaks no API that we know).

    ``problems``: what session hooks did wrong, by hook, for the log.
    """

    request: Request
    reports: tuple[Report, ...] = ()
    turn: Turn | None = None
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def session(self) -> Session | None:
        """Whose conversation it is."""
        return self.turn.session if self.turn is not None else None


async def prepare(
    request: Request, rules: Sequence[Normalizer], hooks: Sequence[SessionHook], store: Store
) -> Prepared:
    """Take ``request`` through ``rules``: those that look at the turn before come last.

    Nothing is changed in ``store``. To be driven by ``fold.run`` or ``fold.advance``.
    """
    pins = [rule for rule in rules if rule.needs_previous]
    others = [rule for rule in rules if not rule.needs_previous] if pins else rules
    plain = await fold(request, others)
    if request.dialect is None:
        return Prepared(plain.request, plain.reports)
    answer, problems = await asked(hooks, plain.request)
    turn = store.find(session_of(plain.request, answer), plain.request)
    if not pins:
        return Prepared(plain.request, plain.reports, turn, tuple(problems))
    pinned = await fold(plain.request, pins, turn.previous)
    if pinned.request is not plain.request:
        turn = turn._replace(prompt=prompt_of(pinned.request))
    reports = plain.reports + pinned.reports
    return Prepared(pinned.request, reports, turn, tuple(problems))
