"""A cure for one broken turn: rules proven on its two requests, and what each of them wins.

It says nothing of the requests but the rules and the figures: a running proxy gives it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.diagnose.propose import NoProposal, Proposal, propose
from cacheproxy.core.diagnose.report import AsJson
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.diagnose.winning import Won, won_by
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.normalizer import Normalizer


@dataclass(frozen=True, slots=True)
class Found:
    """One field that changed."""

    path: str  #: as in ``volatile.Field``
    label: str  #: as in ``volatile.Field``
    kind: str  #: as in ``volatile.Field``
    name: str = ""  #: of the rule that was proven, "" for none
    toml: str = ""  #: that rule, as the config file has it
    won: Won | None = None  #: what it wins
    why: str = ""  #: there is none; one sentence
    rules: tuple[str, ...] = ()  #: those that there are for it already
    on: tuple[str, ...] = ()  #: of these, those that are on


@dataclass(frozen=True, slots=True)
class Cure(AsJson):
    """What can be done about a request by a rule."""

    number: int  #: the request's
    file: str = ""  #: the config file that the proxy reads when it is asked to, if it is there
    edits: bool = True  #: whether its rules are used with this upstream
    found: tuple[Found, ...] = ()  #: the fields that changed

    @property
    def tables(self) -> list[str]:
        """The rules to be written, as tables of the config file."""
        return [one.toml for one in self.found if one.toml]

    @property
    def off(self) -> list[str]:
        """The names of rules that are there, and only to be switched on."""
        return list(dict.fromkeys(one.rules[0] for one in self.found if one.rules and not one.on))

    @property
    def names(self) -> list[str]:
        """The names of all rules that can be applied."""
        return [one.name for one in self.found if one.toml] + self.off

    @property
    def can_apply(self) -> bool:
        """Whether there is a rule to be written, or to be switched on."""
        return bool(self.names)

    @property
    def why_not(self) -> str | None:
        """Why nothing can be applied, in a sentence; None if something can be."""
        if not self.edits:
            return "Rules change nothing here: the upstream is not a local server (edit_remote)."
        on = [name for one in self.found for name in one.on[:1]]
        if not self.can_apply and on:
            return f"Rule {on[0]} is already on."
        return None if self.can_apply else "There is no rule for it."


def cures(
    pair: Pair,
    rules: Sequence[Normalizer],
    active: Iterable[str],
    client: Client | None,
    *,
    others: Iterable[Request] = (),
    order: PromptOrder | None = None,
    tokens: int | None = None,
    reused: int | None = None,
) -> Iterable[Found]:
    """Yield what changed from one request of ``pair`` to the next, and the rule for each.

    ``rules``: all that there are, on or off; ``active``: the names of those that are on.
    ``client``: whose requests they are, None if a rule could not tell. ``others``: requests in
    which a rule may do no harm either. ``order``: of the prompt's parts, None: the one that fits
    best what was ``reused``; ``tokens``: of the later prompt, if counted. Rules that together would
    save next to nothing are not proposed, nor where more than they save changed elsewhere.
    """
    on = frozenset(active)
    step = (pair.before, pair.after)
    ordered = sorted(rules, key=lambda rule: rule.name not in on)
    changed = fields([step], ordered)
    requests = [*step, *others]
    names = {rule.name for rule in rules}
    proposals, refusals = propose(changed, [step], requests, names, lambda _: client)
    answers: list[Proposal | NoProposal] = [*proposals, *refusals]
    made = {id(one.field): one for one in answers}
    off = {one.rules[0] for one in changed if one.rules and not on.intersection(one.rules)}
    together = [*(one.rule for one in proposals), *(rule for rule in rules if rule.name in off)]
    won = won_by(together, step, order, tokens, reused)
    if won is not None:
        won = replace(won, tried=len({request.body for request in requests}))
    for one in changed:
        answer = made.get(id(one))
        line = one.sightings[0].change.before
        label = one.label if hide_text(line) == line else ""
        known = Found(one.path, label, one.kind.value)
        if answer is None:
            covered = tuple(name for name in one.rules if name in on)
            yield replace(known, rules=one.rules, on=covered)
        elif isinstance(answer, NoProposal):
            yield replace(known, why=answer.why)
        elif won is not None and won.why_not is not None:
            yield replace(known, why=won.why_not)
        else:
            yield replace(known, name=answer.rule.name, toml=answer.toml(), won=won)
