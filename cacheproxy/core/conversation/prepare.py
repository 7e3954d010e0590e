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
from cacheproxy.core.rules.tools_as_before import TOOLS_AS_BEFORE


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
    pins = [rule for rule in rules if rule.needs_previous and rule is not TOOLS_AS_BEFORE]
    of_tools = [rule for rule in rules if rule is TOOLS_AS_BEFORE]
    plain = await fold(request, [rule for rule in rules if not rule.needs_previous])
    if request.dialect is None:
        return Prepared(plain.request, plain.reports)
    answer, problems = await asked(hooks, plain.request)
    turn = store.find(session_of(plain.request, answer), plain.request)
    pinned = await fold(plain.request, pins, turn.previous)
    # Where tools come and go, the server may still have the prompt with these.
    ready = await fold(pinned.request, of_tools, turn.with_same_tools)
    if ready.request is not plain.request:
        turn = turn._replace(prompt=prompt_of(ready.request))
    reports = plain.reports + pinned.reports + ready.reports
    return Prepared(ready.request, reports, turn, tuple(problems))
