"""A cure for one broken turn: rules proven on its two requests, and the tokens that they save.

It contains nothing of the requests but rules and figures, since a running proxy returns it.
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
"""Tokens, and their share of the prompt, that a rule has to save at least."""


@dataclass(frozen=True, slots=True)
class Found:
    """One field that changed."""

    path: str  #: as in ``volatile.Field``
    label: str  #: as in ``volatile.Field``
    kind: str  #: as in ``volatile.Field``
    name: str = ""  #: name of the proven rule, "" for none
    toml: str = ""  #: the proven rule as a table of the config file
    won: Won | None = None  #: tokens that the proven rules save
    why: str = ""  #: reason why there is no rule, in one sentence
    rules: tuple[str, ...] = ()  #: names of existing rules for the field
    on: tuple[str, ...] = ()  #: names of the active ones of these
    seen: tuple[int, int] | None = None
    """Turns in which the field changed, and all turns; None in the cure of a single turn."""


@dataclass(frozen=True, slots=True)
class Cure(AsJson):
    """The rules that cure a request, or all captured ones."""

    number: int = 0  #: number of the request; 0: all that were captured
    file: str = ""  #: the config file that a reload reads, if it exists
    edits: bool = True  #: whether rules apply to this upstream
    found: tuple[Found, ...] = ()  #: the fields that changed

    @property
    def tables(self) -> list[str]:
        """New rules, as tables of the config file."""
        return [one.toml for one in self.found if one.toml]

    @property
    def off(self) -> list[str]:
        """Names of existing rules that only have to be switched on."""
        return list(dict.fromkeys(one.rules[0] for one in self.found if one.rules and not one.on))

    @property
    def names(self) -> list[str]:
        """Names of all rules that can be applied."""
        return [one.name for one in self.found if one.toml] + self.off

    @property
    def can_apply(self) -> bool:
        """Whether there is a rule to write or to switch on."""
        return bool(self.names)

    @property
    def why_not(self) -> str | None:
        """Reason why nothing can be applied, in a sentence; None if something can be."""
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
    """Yield the fields that changed from one request of ``pair`` to the next, each with its rule.

    ``rules``: all existing rules; ``active``: names of the active ones. ``client``: the client of
    the requests, None if a rule could not recognize it. ``others``: further requests in which a
    rule must do no harm. ``order``: order of the prompt's parts, None for the one that fits
    ``reused`` best; ``tokens``: size of the later prompt, if counted. No rules are proposed that
    together save next to nothing, or less than what changes elsewhere costs.
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
    """Return the field of ``proposal`` with its rule, for a cure; ``seen``: see ``Found``."""
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
    """The gain of rules together: estimated tokens that a prompt shares with the turn before."""

    prompt: int  #: all tokens of the prompt
    shared: int  #: shared tokens without the rules
    cured: int  #: shared tokens with the rules
    tried: int = 1  #: number of requests that the rules were proven on
    rules: int = 1  #: number of rules
    rest: int = 0  #: cached tokens evaluated again all the same, for what changed elsewhere

    @property
    def text(self) -> str:
        """The gain as sentences."""
        shares = [min(1.0, tokens / max(1, self.prompt)) for tokens in (self.shared, self.cured)]
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
        return max(0, self.cured - self.shared)

    @property
    def why_not(self) -> str | None:
        """Reason why such rules are not proposed, in a sentence; None if they are."""
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
    """Return the gain of ``rules`` together at ``step``; None for no rules, or no prompt.

    ``order``: order of the prompt's parts, None for the one that fits ``reused`` best; ``tokens``:
    size of the later prompt, if counted.
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
    cured, rest = _parted(sent, first)
    shared, cured, rest = (round(chars * per_char) for chars in (shared, cured, rest))
    return Won(counted, shared, cured, rules=len(rules), rest=rest)


def worth(
    proposals: Sequence[Proposal],
    steps: Sequence[Step],
    others: Sequence[Normalizer] = (),
    used: Sequence[tuple[int | None, int | None]] = (),
) -> Iterator[Proposal]:
    """Yield ``proposals``, without their rule if it saves too little wherever their field changed.

    ``others``: active rules; ``used``: for each step, the tokens of its later prompt and the
    reused ones of these, if known.
    """
    rules = [one.rule for one in proposals if one.rule is not None]

    @cache
    def why_not(number: int) -> str | None:
        won = won_by(
            rules, folded(steps[number], others), None, *(used[number] if used else (None, None))
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
    """Return the characters that two prompts share, and those of the first evaluated again."""
    found = parted(step, order)
    if found is None:
        return 0, 0
    was, now, left = found
    if left.was is None:
        return left.shared, 0
    return left.shared, max(0, was.chars - left.shared - taken_back(was, left, now))
