"""What is asked of each request: compiled once for each configuration, and once for each client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from cacheproxy.core.conversation.owner import EVERYTHING, Owners
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.document.words import Words
from cacheproxy.core.prompt.client import EVERY, NOBODY, Client, Clients
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import CALLS_AS_BEFORE, TOOLS_AS_BEFORE
from cacheproxy.core.rules.code_rule import CompiledRule, Normalizer, compiled
from cacheproxy.core.rules.fold import GivenUpError, PluginCall, kind_of, words_of
from cacheproxy.core.rules.rule import Rule

MOST_ID = 256
"""Characters of ``client/id`` at most: it is stored for each session, and its client is logged."""
_MOST_KNOWN = 256
"""Sets of headers at most for which the matching clients are cached."""


@dataclass(frozen=True, slots=True)
class SessionHook:
    """One plugin's hook cacheproxy_session."""

    plugin: str  #: name of the plugin
    ask: Callable[[Request], object]
    """The hook's function; it is called in a thread with a deadline, unless it is ``quick``."""
    client: Client | None = None  #: client of the requests that it is called for; None: all

    @property
    def name(self) -> str:
        """Name of the hook in the log and in failure counts."""
        return f"{self.plugin}: cacheproxy_session"

    @property
    def is_quick(self) -> bool:
        """Whether the hook may be called in the reactor's thread."""
        return getattr(self.ask, "quick", False) is True

    def answer(self, request: Request) -> tuple[str | None, str | None]:
        """Return the hook's result (``client/id``, ``id``, None), and the problem with it or None.

        ``request``: a request of the hook's client. Whatever the hook raises is a problem; only a
        KeyboardInterrupt, which may be the user's, is raised.
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


class Pins(NamedTuple):
    """The rules of one client that pin values."""

    rules: tuple[Rule, ...] = ()  #: those that are declarative
    literals: frozenset[str] | None = frozenset()
    """Texts of which a body must have one for any rule to pin a value; None: any body will do."""


NO_PINS = Pins()


class ClientPlan(NamedTuple):
    """The rules and hooks for requests that match certain clients."""

    client: str  #: name of the first client, "" if none matches: the user agent may name one
    plain: tuple[CompiledRule, ...]  #: rules that do not read the turn before
    pins: tuple[CompiledRule, ...]  #: rules that do, without the built-in ones
    of_calls: tuple[CompiledRule, ...]  #: built-in rule that respells calls as before
    of_tools: tuple[CompiledRule, ...]  #: built-in rule that puts tools back in their order
    fields: Pins  #: those pins as far as requests are compared without their values
    hooks: tuple[SessionHook, ...]  #: hooks called in turn for the request's session
    words: Words  #: literals of all these rules
    marked_by: dict[Client, bool]  #: owners of rules or hooks, and whether the request is theirs


class Plan:
    """The ``rules`` and ``hooks`` for all requests, from which a ClientPlan is chosen for each.

    ``hooks``: hooks called in turn for a request's session. ``clients``: known clients. ``owners``:
    recognition of people. Rules that read the turn before run last.
    """

    def __init__(
        self,
        rules: Iterable[Normalizer],
        hooks: Sequence[SessionHook] = (),
        clients: Clients = NOBODY,
        owners: Owners = EVERYTHING,
    ) -> None:
        self.rules, self.hooks, self.clients, self.owners = tuple(rules), hooks, clients, owners
        clients_of = [one.client for one in (*self.rules, *self.hooks) if one.client is not None]
        self._owners = tuple(dict.fromkeys((*clients, *clients_of)))
        self._marked: dict[tuple[object, ...], tuple[bool | None, ...]] = {}
        self._plans: dict[tuple[bool | None, ...], ClientPlan] = {}

    def only(self, *rules: Normalizer) -> Plan:
        """Return this plan with these ``rules`` alone."""
        return Plan(rules, self.hooks, self.clients, self.owners)

    def of(self, request: Request) -> ClientPlan:
        """Return the rules and hooks for ``request``, which is searched for the rules' literals.

        The caller has introduced it to ``clients``. Clients that are known by marks outside of the
        body are matched once for all requests with equal marks.
        """
        names = request.by_name
        marks = (request.speaker, request.dialect is None, names.get(b"user-agent"), *names)
        marked_by = self._marked.get(marks)
        if marked_by is None:
            marked_by = tuple([client.marked(request) for client in self._owners])
            if len(self._marked) < _MOST_KNOWN:
                self._marked[marks] = marked_by
        if None in marked_by:
            each = zip(self._owners, marked_by, strict=True)
            marked_by = tuple([one.reads(request) if own is None else own for one, own in each])
        plan = self._plans.get(marked_by)
        if plan is None:
            plan = self._plans[marked_by] = self._made(marked_by)
        request.searched_for(plan.words, plan.marked_by)
        return plan

    def _made(self, marked_by: tuple[bool | None, ...]) -> ClientPlan:
        """Return the plan for requests of the owners whose value in ``marked_by`` is true."""
        theirs = [client for client, is_its in zip(self._owners, marked_by, strict=True) if is_its]
        rules = [one for one in self.rules if one.client is None or one.client in theirs]
        pins = [rule for rule in rules if rule.needs_previous]
        others = [rule for rule in pins if rule not in (TOOLS_AS_BEFORE, CALLS_AS_BEFORE)]
        literals = chain.from_iterable(rule.literals for rule in others)
        return ClientPlan(
            next((one.name for one in self.clients if one in theirs and one.name != EVERY), ""),
            compiled(rule for rule in rules if not rule.needs_previous),
            compiled(others),
            compiled(rule for rule in pins if rule is CALLS_AS_BEFORE),
            compiled(rule for rule in pins if rule is TOOLS_AS_BEFORE),
            Pins(
                tuple(rule for rule in others if isinstance(rule, Rule)),
                frozenset(literals) if all(rule.literals for rule in others) else None,
            ),
            tuple(one for one in self.hooks if one.client is None or one.client in theirs),
            words_of(rules),
            {client: bool(is_its) for client, is_its in zip(self._owners, marked_by, strict=True)},
        )

    async def session(
        self, request: Request, plan: ClientPlan | None = None
    ) -> tuple[Session, list[tuple[str, str]]]:
        """Return the session of ``request``, and pairs of a hook's name and its problem.

        A hook that is not ``quick`` is awaited as a PluginCall (see ``rules.fold``).
        """
        plan = self.of(request) if plan is None else plan
        problems: list[tuple[str, str]] = []
        for hook in plan.hooks:
            if hook.is_quick:
                answer, problem = hook.answer(request)
            else:
                try:
                    shown = replace(request, memo=None)
                    answer, problem = await PluginCall(hook.name, partial(hook.answer, shown))
                except GivenUpError as error:
                    answer, problem = None, str(error) or None
            if problem is not None:
                problems.append((hook.name, problem))
            if answer is not None:
                return session_of(request, answer, owners=self.owners), problems
        client = request.speaker or plan.client or None
        return session_of(request, None, client, self.owners), problems
