"""The verdict on one turn: whether it reused the turn before, why not, and at which cost.

Two prompts are compared, in the order in which the server's template prints their parts; the
server's count shows whether the comparison is right. If the server reused less than the requests
share, ``cacheproxy.core.judge.cause`` looks for the reason, with the two rendered prompts where
the server shows them (``cacheproxy.core.judge.proof``).
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from cacheproxy.core.conversation.divergence import Parting, describe_change, parting, taken_back
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    CHANGED,
    Basis,
    Break,
    Judgement,
    Reason,
    Rewrite,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.cause import allowed, cause_of, near
from cacheproxy.core.judge.cut import LEAST, cut_of
from cacheproxy.core.judge.evidence import Evidence, Parted
from cacheproxy.core.kinds.profile import Reporting
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder

_REASONS = {
    Part.SYSTEM: Reason.SYSTEM_CHANGED,
    Part.TOOLS: Reason.TOOLS_CHANGED,
    Part.MESSAGES: Reason.MESSAGES_CHANGED,
}
_TEXTUAL = CHANGED | {Reason.UNKNOWN}
ORDERS = (PromptOrder.TOOLS_FIRST, PromptOrder.SYSTEM_FIRST)
"""Possible orders of a prompt without late system messages, which hoisting does not change."""
_NOTHING = TokenCount(0, "estimated")
_PROVEN = (Basis.TOLD, Basis.RENDERED)
CHARS_PER_TOKEN = 4.0
"""Density if no server has counted yet; such figures are ``estimated``."""
_EXCERPT = 120
_FEW = near(0)


def judge(turn: Evidence) -> Verdict:
    """Return the verdict on a turn, by its evidence."""
    before, usage = turn.before, turn.usage
    if turn.profile.reporting is Reporting.NEVER:  # a constant is no count
        usage = replace(usage, reused=None)
        turn = replace(turn, usage=usage)
    cut, may_be_cut = None, usage.truncated or (usage.prompt or 0) >= LEAST  # else spare the call
    if before is None:
        if may_be_cut:
            cut = cut_of(turn)
        if cut is not None or turn.is_first:
            return cut or _first(turn)
        return Verdict(Judgement.COMPACTED) if turn.is_replaced else _without_before(usage)
    counted = usage.prompt or turn.tokens
    parted = _fitting(turn, before, counted)
    could = _could(before, parted, counted)
    same_model = before.sent.model == turn.sent.model
    if not same_model:
        could = _NOTHING
    without, saved = could, _NOTHING
    if same_model and (turn.unedited is not turn.sent or before.unedited is not before.sent):
        unaided = turn.parted(before, parted.now.order, unaided=True)
        without = _could(before, unaided, counted)
        # The server never reuses less without the edits than what stayed equal unedited.
        reused = could.tokens if usage.reused is None else usage.reused
        gained = max(0, reused - without.tokens) if could.tokens > without.tokens else 0
        saved = TokenCount(gained, "estimated")
    judged = partial(Verdict, expected=could, unedited=without, saved=saved)
    if may_be_cut:
        cut = cut_of(turn, parted)
    if cut is not None:
        lost = None
        if before.tokens is not None and usage.reused is not None:
            lost = _lost(before.tokens, usage.reused, usage.prompt, parted)
        return replace(cut, **judged.keywords, lost=lost, seconds_lost=_seconds(lost, usage))
    change = None if same_model else Reason.MODEL_CHANGED
    if change is None and parted.left.was is not None:
        change = _REASONS[parted.left.part]
    if turn.is_replaced and change is Reason.MESSAGES_CHANGED and not _lost_its_head(could, usage):
        return judged(Judgement.COMPACTED)
    had, memory = before.tokens, turn.profile.memory
    if had is None:
        return judged(Judgement.UNKNOWN)
    bearable = allowed(had, counted or had, memory, changed=change is not None)
    if usage.reused is None:
        if usage.prompt is None and not turn.is_whole:  # it was left: who knows what it cost
            return judged(Judgement.UNKNOWN)
        lost = TokenCount(max(0, had - could.tokens), "estimated")
        if turn.profile.reuses is False:
            lost = TokenCount(turn.had, "estimated")
            return judged(Judgement.BREAK, Reason.NOT_CACHED, lost=lost, basis=Basis.TOLD)
        if lost.tokens <= bearable:
            return judged(Judgement.UNKNOWN, lost=lost)
        where = _where(turn, parted) if change in _TEXTUAL else None
        return judged(Judgement.UNKNOWN, change, where, lost=lost)
    lost = _lost(had, usage.reused, usage.prompt, parted)
    if lost.tokens <= bearable:
        return judged(Judgement.OK, lost=lost)
    return _broken(judged(Judgement.UNKNOWN, lost=lost), turn, parted, change)


def wants_proof(turn: Evidence, verdict: Verdict) -> bool:
    """Whether the rendered prompts could show more of a turn than its ``verdict`` states."""
    if verdict.judgement is not Judgement.BREAK or verdict.basis in _PROVEN:
        return False
    if verdict.basis is Basis.COUNTED and verdict.expected is not None:
        away = abs(verdict.expected.tokens - (turn.usage.reused or 0))
        return away > near(verdict.expected.tokens)
    return verdict.reason is not Reason.PREVIOUS_NOT_FOUND


def order_of(turn: Evidence) -> PromptOrder | None:
    """Return the order that alone predicts the reused tokens; None if both do, or neither."""
    before, reused = turn.before, turn.usage.reused
    if before is None or reused is None:
        return None
    counted, fitting = turn.tokens, []
    for order in ORDERS:
        could = _could(before, turn.parted(before, order), counted).tokens
        if abs(could - reused) <= near(could):
            fitting.append(order)
    return fitting[0] if len(fitting) == 1 else None


def _fitting(turn: Evidence, before: Before, counted: int | None) -> Parted:
    """Return the comparison in the template's order, else in the one that predicts reuse best."""
    order, reused = turn.profile.order, turn.usage.reused
    first = turn.parted(before, order or PromptOrder.TOOLS_FIRST)
    was, now = first.left.was, first.left.now
    if order is not None or was is None or reused is None:
        return first
    if was.part is Part.MESSAGES and (now is None or now.part is Part.MESSAGES):
        return first  # what stands before the messages is equal, in either order
    each = [turn.parted(before, one) for one in ORDERS]
    return min(each, key=lambda one: abs(_could(before, one, counted).tokens - reused))


def _could(before: Before, parted: Parted, counted: int | None) -> TokenCount:
    if parted.left.was is None and before.tokens is not None:
        return TokenCount(before.tokens, "measured")  # all of the turn before, which was counted
    return tokens_of(parted.left.shared, parted.now, counted)


def _lost_its_head(could: TokenCount, usage: Usage) -> bool:
    """Whether the server reused far less than the tools and the system text, which are equal."""
    if usage.reused is None:
        return False
    return could.tokens - usage.reused > max(_FEW, 0.5 * could.tokens)


def _lost(had: int, reused: int, prompt: int | None, parted: Parted) -> TokenCount:
    """Return the tokens evaluated again although the server had them: at most those evaluated.

    Text that the client took back or rewrote is no loss: a rewind, a branch.
    """
    was, left = parted.was, parted.left
    lost = max(0, had - reused)
    if prompt is not None:
        lost = min(lost, max(0, prompt - reused))
    if left.was is None or not lost or not was.chars:
        return TokenCount(lost, "measured")
    if round((was.chars - left.shared) * had / was.chars) <= _FEW:  # no more was taken back
        return TokenCount(lost, "measured")
    gone = round(taken_back(was, left, parted.now) * had / was.chars)
    if gone <= _FEW:
        return TokenCount(lost, "measured")
    return TokenCount(max(0, min(lost, had - reused - gone)), "estimated")


def _where(turn: Evidence, parted: Parted) -> Break:
    return located(parted.left, parted.was, parted.now, turn.tokens)


def _broken(verdict: Verdict, turn: Evidence, parted: Parted, change: Reason | None) -> Verdict:
    expected, lost, proof = verdict.expected, verdict.lost, turn.proof
    assert expected is not None
    assert lost is not None
    cause = cause_of(turn, change, expected.tokens)
    where, usage = None, turn.usage
    named = cause.beneath or cause.reason
    if named in (Reason.TEMPLATE_CHANGED, Reason.PARAMETERS_CHANGED) and proof is not None:
        where = proof.where
    elif named is Reason.PARAMETERS_CHANGED and turn.parameter is not None:
        path, *texts = turn.parameter
        where = Break(path, 0, expected, ChangeKind.TEXT, *texts)
    elif parted.left.was is not None and named in _TEXTUAL:
        # Where only the model changed, or the server dropped it, no text is to blame.
        where = _where(turn, parted)
    if proof is not None:
        expected = TokenCount(min(proof.shared, usage.prompt or proof.shared), "measured")
        if where is not None:
            where = replace(where, position=expected)
    if cause.rewrite is Rewrite.CLOCK and cause.reason is Reason.TEMPLATE_CHANGED:
        # Both prompts were rendered at one time: where they part it shows by what was reused.
        where, expected = None, TokenCount(usage.reused or 0, "measured")
    return replace(
        cause,
        where=where,
        expected=expected,
        lost=lost,
        seconds_lost=_seconds(lost, usage),
        unedited=verdict.unedited,
        saved=verdict.saved,
    )


def _seconds(lost: TokenCount | None, usage: Usage) -> float | None:
    if lost is None or not usage.prompt_seconds or not usage.evaluated:
        return None
    return usage.prompt_seconds * min(1.0, lost.tokens / usage.evaluated)


def _first(turn: Evidence) -> Verdict:
    """Return the verdict on the first turn seen; the conversation may have begun before.

    The turn is not cold if the server had most of it: others' prompts may begin alike.
    """
    usage = turn.usage
    if usage.prompt and (usage.reused or 0) >= usage.prompt / 2:
        return Verdict(Judgement.OK)
    is_begun = any(segment.source == "model" for segment in turn.sent.segments)
    signs = (Sign.BEGUN_ELSEWHERE,) if is_begun and not turn.is_known else ()
    return Verdict(Judgement.COLD, evidence=signs)


def _without_before(usage: Usage) -> Verdict:
    """Return the verdict on a later turn without the turn before, by the server's counts alone."""
    if usage.prompt is None or usage.reused is None:
        return Verdict(Judgement.UNKNOWN)
    if usage.reused >= usage.prompt / 2:
        return Verdict(Judgement.OK)
    return Verdict(Judgement.BREAK, Reason.PREVIOUS_NOT_FOUND)


def tokens_of(chars: int, prompt: Prompt, counted: int | None) -> TokenCount:
    """Return the tokens of ``chars`` characters of ``prompt``; ``counted``: tokens of all of it."""
    if counted and prompt.chars:
        return TokenCount(round(chars * counted / prompt.chars), "estimated")
    return TokenCount(round(chars / CHARS_PER_TOKEN), "estimated")


def parted_at(before: Prompt, sent: Prompt, counted: int | None) -> Break | None:
    """Return where ``sent`` leaves the turn before, even if too near the end for a break."""
    left = parting(before, sent)
    return None if left.was is None else located(left, before, sent, counted)


def located(left: Parting, before: Prompt, sent: Prompt, counted: int | None) -> Break:
    """Return where ``sent``, of ``counted`` tokens, leaves the turn ``before``."""
    text = left.now.text[: left.now_at] if left.now is not None else ""
    return Break(
        path=left.path,
        byte=len(text.encode("utf-8", "surrogatepass")),
        position=tokens_of(left.shared, sent, counted),
        kind=describe_change(left, before, sent),
        was=excerpt(left.was.text if left.was else "", left.was_at),
        now=excerpt(left.now.text if left.now else "", left.now_at),
        source=writer(left),
    )


def writer(left: Parting) -> str:
    """Return the writer of the text in which two prompts part, "" if there is none."""
    segment = left.now or left.was
    return "" if segment is None else segment.source


def excerpt(text: str, at: int) -> str:
    """Return an excerpt of ``text`` around ``at``."""
    return text[max(0, at - _EXCERPT // 2) : at + _EXCERPT]
