"""A request on its way up: through the rules, to its conversation, through the pins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.prompt.client import NOBODY, Client, Clients
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import TOOLS_AS_BEFORE
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import Foreign, GivenUpError, RuleReport, fold, kind_of
from cacheproxy.core.rules.rule import Rule

MOST_ID = 256
"""Characters of ``client/id``: it is kept for each session, and its client is logged."""


@dataclass(frozen=True, slots=True)
class SessionHook:
    """One plugin's hook cacheproxy_session."""

    plugin: str  #: its name
    ask: Callable[[Request], object]
    """Calls it; in a thread with a deadline, unless it is ``quick``."""
    client: Client | None = None  #: whose requests it is asked about; None: everybody's

    @property
    def name(self) -> str:
        """What it is called in the log and counted under."""
        return f"{self.plugin}: cacheproxy_session"

    def is_for(self, request: Request) -> bool:
        """Whether ``request`` is one of its client (law 10)."""
        return self.client is None or self.client.sent(request)

    def answer(self, request: Request) -> tuple[str | None, str | None]:
        """Return what the plugin says (``client/id``, ``id``, None), and what was wrong with it.

        It is to be asked only where ``is_for`` says so. Whatever it raises is its own failure; only
        a KeyboardInterrupt goes on, which may be the user's.
        """
        try:
            said = self.ask(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # law 4; whatever its class
            return None, f"raised {kind_of(error)}"
        if said is None or said == "":
            return None, None
        if not isinstance(said, str):
            return None, f"returned {kind_of(said)} instead of text"
        if len(said) > MOST_ID or not said.isprintable():
            return None, f"returned text that is no id: at most {MOST_ID} printable characters"
        if self.client is not None and not self.client.is_every and "/" not in said:
            said = f"{self.client.name}/{said}"
        return said, None


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


class Plan:
    """What is asked of each request: ``rules``, and whose it is.

    ``hooks``: asked in turn which session it belongs to. ``clients``: those that are known. Rules
    that look at the turn before come last, after those that are ``plain``; ``fields``: of the
    ``pins`` those that are rows of a table.
    """

    def __init__(
        self,
        rules: Iterable[Normalizer],
        hooks: Sequence[SessionHook] = (),
        clients: Clients = NOBODY,
    ) -> None:
        self.rules = rules = tuple(rules)
        self.hooks, self.clients = hooks, clients
        self.plain = tuple(rule for rule in rules if not rule.needs_previous)
        pins = [rule for rule in rules if rule.needs_previous]
        self.pins = tuple(rule for rule in pins if rule is not TOOLS_AS_BEFORE)
        self.of_tools = tuple(rule for rule in pins if rule is TOOLS_AS_BEFORE)
        self.fields = tuple(rule for rule in self.pins if type(rule) is Rule)

    def only(self, *rules: Normalizer) -> Plan:
        """Return it with these ``rules`` alone."""
        return Plan(rules, self.hooks, self.clients)

    async def session(self, request: Request) -> tuple[Session, list[tuple[str, str]]]:
        """Return whose conversation ``request`` belongs to, and what hooks did wrong, by hook."""
        problems: list[tuple[str, str]] = []
        for hook in self.hooks:
            if not hook.is_for(request):
                continue
            if getattr(hook.ask, "quick", False) is True:
                answer, problem = hook.answer(request)
            else:
                try:
                    shown = replace(request, memo=None)
                    answer, problem = await Foreign(hook.name, partial(hook.answer, shown))
                except GivenUpError as error:
                    answer, problem = None, str(error) or None
            if problem is not None:
                problems.append((hook.name, problem))
            if answer is not None:
                return session_of(request, answer), problems
        return session_of(request, client=self.clients.name_of(request)), problems


async def prepare(request: Request, plan: Plan, store: Store) -> Prepared:
    """Take ``request`` through the rules, and find out whose it is.

    It has been introduced to the plan's ``clients``. Nothing is changed in ``store``. To be driven
    by ``fold.run`` or ``fold.advance``.
    """
    plain = await fold(request, plan.plain)
    if request.dialect is None:
        return Prepared(plain.request, plain.reports)
    session, problems = await plan.session(plain.request)
    turn = store.find(session, plain.request, plan.fields)
    if not turn.is_tried:
        plain.request.agreeing(turn.shared)
    pinned = await fold(plain.request, plan.pins, turn.previous)
    if turn.is_tried and not _has_all_of(pinned.request, turn):
        turn = turn._replace(source=turn.source if turn.shared >= 0 else None)
        pinned = await fold(plain.request.agreeing(turn.shared), plan.pins, turn.previous)
    # Where tools come and go, the server may still have the prompt with these.
    ready = await fold(pinned.request, plan.of_tools, turn.with_same_tools)
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
