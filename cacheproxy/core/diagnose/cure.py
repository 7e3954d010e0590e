"""A cure for one broken turn: rules proven on its two requests, and what each of them wins.

It says nothing of the requests but the rules and the figures: a running proxy gives it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from cacheproxy.core.conversation.divergence import taken_back
from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.diagnose.propose import Proposal, propose
from cacheproxy.core.diagnose.report import AsJson
from cacheproxy.core.diagnose.volatile import Step, fields, folded, parted
from cacheproxy.core.judge.judge import CHARS_PER_TOKEN, ORDERS
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer

_LEAST, _LEAST_SHARE = 200, 0.01
"""Tokens, and their share of the prompt, that a rule has to save."""


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
    seen: tuple[int, int] | None = None
    """In how many turns of how many it changed; None: what is cured is one turn."""


@dataclass(frozen=True, slots=True)
class Cure(AsJson):
    """What can be done about a request by a rule."""

    number: int = 0  #: the request's; 0: all that were captured
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
    proposals = propose(changed, [step], requests, names, lambda _: client)
    made = {id(one.field): one for one in proposals}
    off = {one.rules[0] for one in changed if one.rules and not on.intersection(one.rules)}
    made_rules: list[Normalizer] = [one.rule for one in proposals if one.rule is not None]
    together = [*made_rules, *(rule for rule in rules if rule.name in off)]
    won = won_by(together, step, order, tokens, reused)
    if won is not None:
        won = replace(won, tried=len({request.body for request in requests}))
    for one in changed:
        proposal = made.get(id(one))
        if proposal is None:
            yield replace(
                found_of(Proposal(one)),
                rules=one.rules,
                on=tuple(filter(on.__contains__, one.rules)),
            )
        elif proposal.rule is not None and won is not None and won.why_not is not None:
            yield found_of(Proposal(one, why=won.why_not))
        else:
            yield replace(found_of(proposal), won=None if proposal.rule is None else won)


def found_of(proposal: Proposal, seen: tuple[int, int] | None = None) -> Found:
    """Return what is told of a field and the rule for it; ``seen``: see ``Found``."""
    field, rule = proposal.field, proposal.rule
    line = field.sightings[0].change.before
    return Found(
        path=field.path,
        label=field.label if hide_text(line) == line else "",
        kind=field.kind.value,
        name="" if rule is None else rule.name,
        toml=proposal.toml(),
        why=proposal.why,
        seen=seen,
    )


@dataclass(frozen=True, slots=True)
class Won:
    """What rules win together: tokens of the prompt that the turn before had already, estimated."""

    prompt: int  #: all tokens of it
    shared: int  #: tokens without the rules
    kept: int  #: tokens with them
    tried: int = 1  #: how many requests they were proven on
    rules: int = 1  #: how many they are
    rest: int = 0  #: tokens that the server had and still reads again, since something else changed

    @property
    def says(self) -> str:
        """Return it as a sentence."""
        shares = [min(1.0, tokens / max(1, self.prompt)) for tokens in (self.shared, self.kept)]
        one, all_of_it = ("this rule", "it")
        if self.rules > 1:
            one, all_of_it = (f"these {self.rules} rules", "them")
        rest = f" ≈{self.rest:,} more changed elsewhere." if self.rest >= _LEAST else ""
        return (
            f"without {one} {shares[0]:.1%} of the prompt was unchanged, with {all_of_it} "
            f"{shares[1]:.1%}: it saves ≈{self.saved:,} tokens.{rest} "
            f"Proven on {self.tried:,} requests."
        )

    @property
    def saved(self) -> int:
        """Tokens that need not be evaluated again."""
        return max(0, self.kept - self.shared)

    @property
    def why_not(self) -> str | None:
        """Why such rules are not proposed, in a sentence; None where they are."""
        if self.saved < max(_LEAST, _LEAST_SHARE * self.prompt):
            return f"a rule would save ≈{self.saved:,} tokens: too few"
        if self.rest > self.saved:
            return (
                f"a rule would save ≈{self.saved:,} tokens, and ≈{self.rest:,} are read again for "
                "what changed elsewhere"
            )
        return None


def won_by(
    rules: Sequence[Normalizer],
    step: Step,
    order: PromptOrder | None = None,
    tokens: int | None = None,
    reused: int | None = None,
) -> Won | None:
    """Return what ``rules`` win together at ``step``; None for no rules, or no prompt.

    ``order``: of the prompt's parts, None: the one that fits best what was ``reused``; ``tokens``:
    of the later prompt, if counted.
    """
    sent = folded(step, rules)
    prompt = prompt_of(sent[1])
    if not rules or prompt is None or not prompt.chars:
        return None
    counted = tokens or round(prompt.chars / CHARS_PER_TOKEN)
    per_char = counted / prompt.chars
    first = order or PromptOrder.TOOLS_FIRST
    if order is None and reused is not None:
        first = min(ORDERS, key=lambda each: abs(_parted(step, each)[0] * per_char - reused))
    shared, _ = _parted(step, first)
    kept, rest = _parted(sent, first)
    shared, kept, rest = (round(chars * per_char) for chars in (shared, kept, rest))
    return Won(counted, shared, kept, rules=len(rules), rest=rest)


def worth(
    proposals: Sequence[Proposal],
    steps: Sequence[Step],
    others: Sequence[Normalizer] = (),
    told: Sequence[tuple[int | None, int | None]] = (),
) -> Iterator[Proposal]:
    """Yield them, those without their rule that win too little wherever their field changed.

    ``others``: rules that are on; ``told``: of each step, the tokens of its later prompt and of
    these the reused ones, if they are known.
    """
    rules = [one.rule for one in proposals if one.rule is not None]

    @cache
    def why_not(number: int) -> str | None:
        won = won_by(
            rules, folded(steps[number], others), None, *(told[number] if told else (None, None))
        )
        return None if won is None else won.why_not

    for one in proposals:
        why = one.why
        for number in sorted({sighting.step for sighting in one.field.sightings if one.rule}):
            why = why_not(number) or ""
            if not why:
                break
        yield Proposal(one.field, None if why else one.rule, why)


def _parted(step: Step, order: PromptOrder) -> tuple[int, int]:
    """Return the characters that two prompts share, and those of the first that are read again."""
    found = parted(step, order)
    if found is None:
        return 0, 0
    was, now, left = found
    if left.was is None:
        return left.shared, 0
    return left.shared, max(0, was.chars - left.shared - taken_back(was, left, now))
