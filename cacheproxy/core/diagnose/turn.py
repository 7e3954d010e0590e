"""The report on a captured turn, from the bodies of its conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.verdict import Judgement, TokenCount, Verdict
from cacheproxy.core.diagnose.conversations import RecordedLane
from cacheproxy.core.diagnose.report import CHARS_PER_TOKEN, TurnReport, report
from cacheproxy.core.diagnose.volatile import Field, fields, is_related
from cacheproxy.core.diff.changes import Change
from cacheproxy.core.judge.evidence import Evidence
from cacheproxy.core.judge.judge import judge, parted_at
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.prompt import Part, PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.core.servers.profile import UNKNOWN
from cacheproxy.record.exchange import Exchange


def report_captured(
    lane: RecordedLane,
    index: int,
    rules: Sequence[Normalizer] = (),
    active: Collection[str] = (),
    *,
    number: int | None = None,
    captures: Sequence[str] = (),
    clients: Iterable[Client] = (),
) -> TurnReport:
    """Return the report on turn ``index`` (from 0) of a captured lane.

    ``captures``: where they are, and ``clients``: those that packages declare, for the advice.
    """
    turn = lane.turns[index]
    record = replace(turn.record, session=lane.session, side=lane.is_side)
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
    return report(
        record,
        verdict,
        field=field,
        seen=seen,
        active=active,
        number=number or record.number or turn.index + 1,
        turn=turn.place.turn,
        captures=captures,
        clients=clients,
    )


def _as_it_was(recorded: Verdict, now: Verdict) -> Verdict:
    """Return the ``recorded`` verdict with what ``now`` quotes: more was known when it was reached.

    A running proxy asks the server what it rendered, and knows what happened meanwhile.
    """
    where = recorded.where
    if where is None:
        return replace(recorded, where=now.where if recorded.reason is None else None)
    if now.where is None or now.where.path != where.path:
        return recorded
    return replace(recorded, where=replace(where, was=now.where.was, now=now.where.now))


def judged(before: Exchange | None, after: Exchange, *, replaced: bool = False) -> Verdict:
    """Return the verdict on a captured turn; where no server has counted, by our own estimate.

    ``replaced``: see ``turns.Place``. ``where`` is there for every turn that does not extend the
    one before, a break or not.
    """
    order = _order(after)
    sent, unedited = prompt_of(_sent(after), order), prompt_of(after.received, order)
    if sent is None or unedited is None:
        return Verdict(Judgement.UNKNOWN)
    if before is None:
        return judge(Evidence(None, sent, unedited, after.usage, is_first=True))
    ours, theirs = prompt_of(_sent(before), order), prompt_of(before.received, order)
    if ours is None or theirs is None:
        return Verdict(Judgement.UNKNOWN)
    counted = before.usage.prompt
    tokens = counted if counted is not None else round(ours.chars / CHARS_PER_TOKEN)
    verdict = judge(
        Evidence(
            Before(ours, theirs, tokens),
            sent,
            unedited,
            after.usage,
            after.profile or UNKNOWN,
            _sent(after),
            is_replaced=replaced,
        )
    )
    if verdict.reason is None:  # a difference near the end is no break, but worth showing
        verdict = replace(verdict, where=parted_at(ours, sent, after.usage.prompt))
    if counted is None and verdict.expected is not None:
        verdict = replace(verdict, expected=TokenCount(verdict.expected.tokens, "estimated"))
    return verdict


def _order(record: Exchange) -> PromptOrder:
    return (record.profile or UNKNOWN).order or PromptOrder.TOOLS_FIRST


def _sent(record: Exchange) -> Request:
    return record.sent or record.received


def _named(
    found: Sequence[Field], step: int, verdict: Verdict, order: PromptOrder
) -> tuple[Field | None, Verdict]:
    """Return the field that was seen in ``step`` where the prompts part, and where that is."""
    where = verdict.where
    here = [(field, one.change) for field in found for one in field.sightings if one.step == step]
    if where is None or not here:
        return None, verdict
    for field, change in here:
        if is_related(where.path, change.path):
            return field, verdict
    # The prompts part in what follows, where a text has lost its end.
    field, change = min(here, key=lambda one: _place(one[1], order))
    byte = len((change.now_text or "")[: change.now_span[0]].encode("utf-8", "surrogatepass"))
    return field, replace(verdict, where=replace(where, path=change.path, byte=byte))


def _place(change: Change, order: PromptOrder) -> tuple[int, list[tuple[int, str]]]:
    """Where a change stands in a prompt, for comparing."""
    system_first = order is PromptOrder.SYSTEM_FIRST
    parts = (Part.SYSTEM, Part.TOOLS) if system_first else (Part.TOOLS, Part.SYSTEM)
    steps = change.path.split("/")
    return (*parts, Part.MESSAGES).index(change.part), [
        (int(step), "") if step.isdecimal() else (-1, step) for step in steps
    ]
