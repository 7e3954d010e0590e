"""The report on one turn: the same from a running proxy as from a capture."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import msgspec
from msgspec import structs

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.verdict import (
    Basis,
    Break,
    Judgement,
    Reason,
    Rewrite,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diagnose.conversations import RecordedLane
from cacheproxy.core.diagnose.volatile import Field, fields, is_related
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.kind import Change, ChangeKind, token_at
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.judge.advice import Advice, Changed, advice, often
from cacheproxy.core.judge.evidence import Evidence
from cacheproxy.core.judge.explain import said_of
from cacheproxy.core.judge.judge import CHARS_PER_TOKEN, judge, parted_at
from cacheproxy.core.kinds.profile import UNKNOWN
from cacheproxy.core.prompt.client import NOBODY, Clients
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.record.exchange import WHOLE, Exchange

_OF_VERDICT = {*Verdict.__struct_fields__} - {"where", "expected", "lost", "unedited"}
"""Fields that a report takes from the verdict unchanged."""
_LOSSES = (Judgement.BREAK, Judgement.CUT)
_LEFT, _RIGHT = 48, 36
"""Characters of an excerpt before and after the difference."""


class ReportError(ValueError):
    """JSON that is not of the expected class."""


class AsJson:
    """The base of a running proxy's reports on a turn: they quote prompts, so only on request."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the report in the JSON object ``value``; raises ReportError."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ReportError(f"not a {cls.__name__.lower()}: {error}") from None


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The line that changed."""

    was: str  #: the line in the turn before
    now: str  #: the line in this turn
    marked: tuple[int, int]  #: (start, end) of the change in ``now``, in characters


@dataclass(frozen=True, slots=True)
class TurnReport(AsJson):
    """One turn, compared with the turn before."""

    number: int  #: number of the exchange, or its place in the captures
    client: str  #: the client's name
    session: str  #: id of the session in the log
    turn: int  #: number of the turn in the session, from 1
    side: bool  #: whether it is a side request
    judgement: Judgement  #: as in ``Verdict``
    reason: Reason | None  #: as in ``Verdict``
    prompt: TokenCount | None  #: tokens of the prompt
    equal: TokenCount | None  #: tokens that it shares with the turn before
    reused: int | None  #: reused tokens, by the server
    evaluated: int | None  #: evaluated tokens, by the server
    seconds: float | None  #: seconds of prefill, by the server
    path: str | None = None  #: JSON pointer to the divergence
    byte: int | None = None  #: offset in the text there
    excerpts: Excerpts | None = None  #: the line that changed
    kind: ChangeKind | None = None  #: shape of the change
    frequency: str = ""  #: turns in which the same field changed, in words
    source: str = ""  #: writer of the field
    rules: tuple[str, ...] = ()  #: names of rules that cover the field
    on: tuple[str, ...] = ()  #: names of the active ones of these
    seen: tuple[int, int] | None = None  #: steps in which the same field changed, and all steps
    lost: TokenCount | None = None  #: as in ``Verdict``
    seconds_lost: float | None = None  #: as in ``Verdict``
    saved: TokenCount | None = None  #: as in ``Verdict``
    basis: Basis | None = None  #: as in ``Verdict``
    rewrite: Rewrite | None = None  #: as in ``Verdict``
    beneath: Reason | None = None  #: as in ``Verdict``
    evidence: tuple[Sign, ...] = ()  #: as in ``Verdict``
    ruled_out: tuple[str, ...] = ()  #: as in ``Verdict``
    whole: TokenCount | None = None  #: as in ``Verdict``
    says: str = ""  #: cause of the break, in a sentence
    advice: tuple[Advice, ...] = ()  #: advice for the user


def report(
    exchange: Exchange,
    verdict: Verdict,
    *,
    field: Field | None = None,
    seen: tuple[int, int] | None = None,
    active: Collection[str] = (),
    captures: Sequence[str] = (),
    clients: Clients = NOBODY,
    is_captured: bool = False,
) -> TurnReport:
    """Return the report on a turn.

    ``verdict``: the original verdict with its excerpts. ``field``: the volatile field at the break,
    with the rules that cover it, if the bodies are at hand. ``active``: names of the active rules.
    For the advice: ``captures``: files or folders of captures, ``clients``: the clients that
    packages declare, ``is_captured``: whether no running proxy remembers the turn.
    """
    where = verdict.where
    usage = exchange.usage
    kind = field.kind if field is not None else where.kind if where is not None else None
    rules = field.rules if field is not None else ()
    found = TurnReport(
        **{name: getattr(verdict, name) for name in _OF_VERDICT},
        number=exchange.number,
        client=exchange.session.client if exchange.session is not None else "",
        session=exchange.session.id if exchange.session is not None else "",
        turn=exchange.turn,
        side=exchange.side,
        prompt=_prompt(exchange),
        equal=where.position if where is not None else verdict.expected,
        reused=usage.reused,
        evaluated=usage.evaluated,
        seconds=usage.prompt_seconds,
        path=(where.path.removesuffix("/role") or None) if where is not None else None,
        # A template's change is in no request: its excerpts are of the rendered prompts.
        byte=where.byte if where is not None and verdict.rewrite is None else None,
        excerpts=_excerpts(where) if where is not None else None,
        kind=kind,
        frequency=often(kind, seen),
        source=field.source if field is not None else "",
        rules=rules,
        on=tuple(name for name in rules if name in active),
        seen=seen,
        lost=verdict.lost if verdict.judgement in _LOSSES else None,
        says=said_of(verdict, usage),
    )
    live = None if is_captured else exchange.number
    changed = Changed(kind, found.source, rules, found.on, seen, tuple(captures), live)
    profile = exchange.profile or UNKNOWN
    client = clients.named(found.client)
    return replace(found, advice=advice(verdict, profile, client, changed))


def failed(exchange: Exchange, number: int | None = None) -> str:
    """Return the reason for no report on a failed request; ``number``: see ``TurnReport``."""
    number = exchange.number if number is None else number
    said = f" ({exchange.error})" if exchange.error else ""
    return (
        f"request {number} failed with status {exchange.status}{said}: the server evaluated nothing"
    )


def _prompt(exchange: Exchange) -> TokenCount | None:
    if exchange.usage.prompt is not None:
        return TokenCount(exchange.usage.prompt, "measured")
    prompt = prompt_of(exchange.sent or exchange.received)
    if prompt is None:
        return None
    return TokenCount(round(prompt.chars / CHARS_PER_TOKEN), "estimated")


def _excerpts(where: Break) -> Excerpts | None:
    """Return a break's excerpts, cut to the line in which they differ."""
    was, now = where.was, where.now
    if not was and not now:
        return None
    at = common_prefix(was, now)
    token = token_at(was, now, at, at)
    start = now.rfind("\n", 0, at) + 1
    start = max(start, (token.now[0] if token is not None else at) - _LEFT)
    lines = [text[start : at + _RIGHT] for text in (was, now)]
    # A change that begins with a newline is shown with it, as the line itself would be empty.
    lines = [text.split("\n")[0] or text.replace("\n", "⏎") for text in lines]
    span = token.now if token is not None else (at, at + 1)
    marked = (span[0] - start, min(span[1] - start, len(lines[1])))
    return Excerpts(lines[0], lines[1], (marked[0], max(marked)))


def report_captured(
    lane: RecordedLane,
    index: int,
    rules: Sequence[Normalizer] = (),
    active: Collection[str] = (),
    *,
    captures: Sequence[str] = (),
    clients: Clients = NOBODY,
) -> TurnReport:
    """Return the report on turn ``index`` (from 0) of a captured lane.

    For the advice: ``captures``: files or folders of captures, ``clients``: the clients that
    packages declare.
    """
    turn = lane.turns[index]
    record = replace(
        turn.record,
        number=turn.record.number or turn.index + 1,
        session=lane.session,
        turn=turn.place.turn,
        side=lane.is_side,
    )
    before = lane.turns[index - 1].record if index else None
    verdict = judged(before, record, replaced=turn.place.replaced)
    recorded = record.verdict if record.profile is not None else None
    if recorded is not None:
        verdict = _as_it_was(recorded, verdict)
    field = seen = None
    if before is not None and verdict.where is not None:
        steps = [(_sent(one.record), _sent(other.record)) for one, other in pairwise(lane.turns)]
        found = fields(steps, sorted(rules, key=lambda rule: rule.name not in active))
        field, named = _named(found, index - 1, verdict, _order(record))
        verdict = named if recorded is None else verdict
        seen = (field.count, len(steps)) if field is not None else None
        if field is not None and recorded is not None and verdict.where is not None:
            field = replace(field, kind=verdict.where.kind)  # the kind in this turn, not in all
    return report(
        record,
        verdict,
        field=field,
        seen=seen,
        active=active,
        captures=captures,
        clients=clients,
        is_captured=True,
    )


def _as_it_was(recorded: Verdict, now: Verdict) -> Verdict:
    """Return the ``recorded`` verdict with the excerpts of ``now``, which is based on less.

    A running proxy has the server render prompts, and knows what happened between turns.
    """
    where = recorded.where
    if where is None:
        return structs.replace(recorded, where=now.where if recorded.reason is None else None)
    if now.where is None or now.where.path != where.path:
        return recorded
    quoted = structs.replace(where, was=now.where.was, now=now.where.now)
    return structs.replace(recorded, where=quoted)


def judged(before: Exchange | None, after: Exchange, *, replaced: bool = False) -> Verdict:
    """Return the verdict on a captured turn; tokens that no server has counted are estimated.

    ``replaced``: see ``Place``. Every turn that does not extend the one before, a break or not,
    gets a ``where``.
    """
    order = _order(after)
    sent, unedited = prompt_of(_sent(after), order), prompt_of(after.received, order)
    if sent is None or unedited is None:
        return Verdict(Judgement.UNKNOWN)
    profile, is_whole = after.profile or UNKNOWN, after.outcome in (None, *WHOLE)
    if before is None:
        first = Evidence(None, sent, unedited, after.usage, profile, _sent(after), is_first=True)
        return judge(structs.replace(first, is_whole=is_whole))
    ours, theirs = prompt_of(_sent(before), order), prompt_of(before.received, order)
    if ours is None or theirs is None:
        return Verdict(Judgement.UNKNOWN)
    counted = before.usage.prompt
    tokens = counted if counted is not None else round(ours.chars / CHARS_PER_TOKEN)
    verdict = judge(
        Evidence(
            Before(ours, theirs, tokens, evaluated=before.usage.evaluated, floor=_floor(before)),
            sent,
            unedited,
            after.usage,
            profile,
            _sent(after),
            is_replaced=replaced,
            is_whole=is_whole,
        )
    )
    if verdict.reason is None:  # a difference near the end is no break, but worth showing
        verdict = structs.replace(verdict, where=parted_at(ours, sent, after.usage.prompt))
    if counted is None and verdict.expected is not None:
        expected = TokenCount(verdict.expected.tokens, "estimated")
        verdict = structs.replace(verdict, expected=expected)
    return verdict


def _floor(before: Exchange) -> int | None:
    """Return the least size of a captured prompt in tokens, None if its count is its size."""
    if before.usage.prompt is None:
        return 0
    whole = None if before.verdict is None else before.verdict.whole
    return None if whole is None or whole.source != "measured" else whole.tokens


def _order(record: Exchange) -> PromptOrder:
    return (record.profile or UNKNOWN).order or PromptOrder.TOOLS_FIRST


def _sent(record: Exchange) -> Request:
    return record.sent or record.received


def _named(
    found: Sequence[Field], step: int, verdict: Verdict, order: PromptOrder
) -> tuple[Field | None, Verdict]:
    """Return the field that diverges in ``step``, and the verdict with the field's place."""
    where = verdict.where
    here = [(field, one.change) for field in found for one in field.sightings if one.step == step]
    if where is None or not here:
        return None, verdict
    for field, change in here:
        if is_related(where.path, change.path):
            return field, verdict
    # If a text has lost its end, the prompts diverge only behind it.
    field, change = min(here, key=lambda one: _place(one[1], order))
    byte = len((change.now_text or "")[: change.now_span[0]].encode("utf-8", "surrogatepass"))
    where = structs.replace(where, path=change.path, byte=byte)
    return field, structs.replace(verdict, where=where)


def _place(change: Change, order: PromptOrder) -> tuple[int, list[tuple[int, str]]]:
    """Return the sort key of a change's place in a prompt."""
    system_first = order is PromptOrder.SYSTEM_FIRST
    parts = (Part.SYSTEM, Part.TOOLS) if system_first else (Part.TOOLS, Part.SYSTEM)
    steps = change.path.split("/")
    return (*parts, Part.MESSAGES).index(change.part), [
        (int(step), "") if step.isdecimal() else (-1, step) for step in steps
    ]
