"""A cure for one broken turn: rules proven on its two requests, and what each of them wins.

It says nothing of the requests but the rules and the figures: a running proxy gives it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.diagnose.propose import Proposal, Refusal, propose
from cacheproxy.core.diagnose.report import CHARS_PER_TOKEN, Told
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.prompt import Order, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.normalizer import Normalizer

_LEAST, _LEAST_SHARE = 200, 0.01
"""Tokens, and their share of the prompt, that a rule has to save."""
_ORDERS = (Order.TOOLS_FIRST, Order.SYSTEM_FIRST)


@dataclass(frozen=True, slots=True)
class Won:
    """What rules win together: tokens of the prompt that the turn before had already, estimated.

    ``prompt``: all of it; ``shared``: without the rules, ``kept``: with them. ``tried``: how many
    requests they were proven on.
    """

    prompt: int
    shared: int
    kept: int
    tried: int

    @property
    def says(self) -> str:
        """Return it as a sentence."""
        shares = [min(1.0, tokens / max(1, self.prompt)) for tokens in (self.shared, self.kept)]
        return (
            f"without this rule {shares[0]:.1%} of the prompt was unchanged, with it "
            f"{shares[1]:.1%}: it saves ≈{self.saved:,} tokens. Proven on {self.tried:,} requests."
        )

    @property
    def saved(self) -> int:
        """Tokens that need not be evaluated again."""
        return max(0, self.kept - self.shared)

    @property
    def is_worth_it(self) -> bool:
        """Whether that is more than the note of a pin takes, and than anybody would see."""
        return self.saved >= max(_LEAST, _LEAST_SHARE * self.prompt)


@dataclass(frozen=True, slots=True)
class Found:
    """One field that changed: ``path``, ``label`` and ``kind`` as in ``volatile.Field``.

    ``name``, ``toml`` and ``won``: of the rule that was proven. ``why``: there is none; one
    sentence. ``rules``: those that there are for it already; ``on``: of these, those that are on.
    """

    path: str
    label: str
    kind: str
    name: str = ""
    toml: str = ""
    won: Won | None = None
    why: str = ""
    rules: tuple[str, ...] = ()
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cure(Told):
    """What can be done about request ``number`` by a rule.

    ``file``: the config file that the proxy reads when it is asked to, if it is there. ``edits``:
    whether its rules are used with this upstream.
    """

    number: int
    file: str = ""
    edits: bool = True
    found: tuple[Found, ...] = ()

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
    order: Order | None = None,
    tokens: int | None = None,
    reused: int | None = None,
) -> Iterable[Found]:
    """Yield what changed from one request of ``pair`` to the next, and the rule for each.

    ``rules``: all that there are, on or off; ``active``: the names of those that are on.
    ``client``: whose requests they are, None if a rule could not tell. ``others``: requests in
    which a rule may do no harm either. ``order``: of the prompt's parts, None: the one that fits
    best what was ``reused``; ``tokens``: of the later prompt, if counted. Rules that together would
    save next to nothing are not proposed: something else changed as well.
    """
    on = frozenset(active)
    step = (pair.before, pair.after)
    ordered = sorted(rules, key=lambda rule: rule.name not in on)
    changed = fields([step], ordered)
    requests = [*step, *others]
    names = {rule.name for rule in rules}
    proposals, refusals = propose(changed, [step], requests, names, lambda _: client)
    answers: list[Proposal | Refusal] = [*proposals, *refusals]
    made = {id(one.field): one for one in answers}
    off = {one.rules[0] for one in changed if one.rules and not on.intersection(one.rules)}
    together = [*(one.rule for one in proposals), *(rule for rule in rules if rule.name in off)]
    tried = len({request.body for request in requests})
    won = _won(pair, together, order, tokens, reused, tried)
    for one in changed:
        answer = made.get(id(one))
        line = one.sightings[0].change.before
        label = one.label if hide_text(line) == line else ""
        known = Found(one.path, label, one.kind.value)
        if answer is None:
            covered = tuple(name for name in one.rules if name in on)
            yield replace(known, rules=one.rules, on=covered)
        elif isinstance(answer, Refusal):
            yield replace(known, why=answer.why)
        elif won is not None and not won.is_worth_it:
            yield replace(known, why=f"a rule would save ≈{won.saved:,} tokens: too few")
        else:
            yield replace(known, name=answer.rule.name, toml=answer.toml(), won=won)


def _won(  # noqa: PLR0917 (what is known of the turn)
    pair: Pair,
    rules: Sequence[Normalizer],
    order: Order | None,
    tokens: int | None,
    reused: int | None,
    tried: int,
) -> Won | None:
    """Return what ``rules`` win together at the turn that broke."""
    before = normalize(pair.before, rules).request
    after = normalize(pair.after, rules, before).request
    prompt = prompt_of(after)
    if not rules or prompt is None or not prompt.chars:
        return None
    counted = tokens or round(prompt.chars / CHARS_PER_TOKEN)
    per_char = counted / prompt.chars

    def shared(one: Request, other: Request, order: Order) -> int:
        return round(_shared(one, other, order) * per_char)

    orders = _ORDERS if order is None else (order,)
    if order is None and reused is not None:
        orders = (
            min(orders, key=lambda each: abs(shared(pair.before, pair.after, each) - reused)),
        )
    return Won(
        counted, shared(pair.before, pair.after, orders[0]), shared(before, after, orders[0]), tried
    )


def _shared(before: Request, after: Request, order: Order) -> int:
    one, other = prompt_of(before, order), prompt_of(after, order)
    return parting(one, other).shared if one is not None and other is not None else 0
