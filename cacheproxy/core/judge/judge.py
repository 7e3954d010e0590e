"""The verdict on one turn: did it reuse the one before, and if not, why, and what did it cost.

It compares two prompts, in the order in which the server's template prints their parts; the
server's count shows whether the comparison holds. If the server reused less than the requests
share, ``cacheproxy.core.judge.cause`` looks for the reason, with the two rendered prompts where
the server shows them (``cacheproxy.core.judge.proof``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Parting, parting, taken_back
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    CHANGED,
    Basis,
    Evidence,
    Judgement,
    Reason,
    Rewrite,
    TokenCount,
    Verdict,
)
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.judge.cause import NOTHING_SEEN, Loss, Meanwhile, cause_of
from cacheproxy.core.judge.counted import allowed, near
from cacheproxy.core.judge.located import located, tokens_of
from cacheproxy.core.judge.proof import Proof
from cacheproxy.core.judge.repairs import as_unaided
from cacheproxy.core.prompt.prompt import Part, Prompt, PromptOrder, reordered
from cacheproxy.core.servers.profile import UNKNOWN, Profile, Reporting

_REASONS = {
    Part.SYSTEM: Reason.SYSTEM_CHANGED,
    Part.TOOLS: Reason.TOOLS_CHANGED,
    Part.MESSAGES: Reason.MESSAGES_CHANGED,
}
_TEXTUAL = CHANGED | {Reason.UNKNOWN}
_ORDERS = (PromptOrder.TOOLS_FIRST, PromptOrder.SYSTEM_FIRST)
_NOTHING = TokenCount(0, "estimated")
_PROVEN = (Basis.TOLD, Basis.RENDERED)


class _Compared(NamedTuple):
    """The two prompts in the server's order, and where they part."""

    before: Before  #: the turn before
    sent: Prompt  #: this turn's prompt
    left: Parting  #: where they part
    could: TokenCount  #: tokens that could have been reused
    counted: int | None  #: tokens of the later one, or an estimate by the density of the earlier


def judge(  # noqa: PLR0917 (the turn, then what is known around it)
    before: Before | None,
    sent: Prompt,
    unedited: Prompt,
    usage: Usage,
    profile: Profile = UNKNOWN,
    meanwhile: Meanwhile = NOTHING_SEEN,
    proof: Proof | None = None,
    *,
    first: bool,
    known: bool = False,
    replaced: bool = False,
    caches: bool = True,
    api: Dialect | None = None,
) -> Verdict:
    """Return the verdict on a turn whose prompt was ``sent``, ``unedited`` as it came.

    ``before`` is None for the ``first`` turn of a session or of a side request, whose conversation
    is ``known`` then, or when we have forgotten the last one.
    ``replaced``: the client wrote the history anew (see ``turns.Place``); that is no break as long
    as what stands before the messages was reused. ``profile``: of the upstream; ``meanwhile``:
    what happened between the turns; ``proof``: the rendered prompts, compared. ``caches``: whether
    the request leaves the server's cache on; ``api``: the dialect that it went upstream in.
    """
    if profile.reporting is Reporting.NEVER:  # a constant is no count
        usage = replace(usage, reused=None)
    if before is None:
        if first:
            return _first(sent, usage, known=known)
        return Verdict(Judgement.COMPACTED) if replaced else _without_before(usage)
    compared = _compare(before, sent, usage, profile.order)
    left, could = compared.left, compared.could
    same_model = before.sent.model == sent.model
    if not same_model:
        could = _NOTHING
    without = could
    if same_model and (unedited is not sent or before.unedited is not before.sent):
        without = _unaided(compared, unedited, profile, api)
    # The server never reuses less without the edits than what stayed equal unedited.
    reused = could.tokens if usage.reused is None else usage.reused
    gained = max(0, reused - without.tokens) if could.tokens > without.tokens else 0
    saved = TokenCount(gained, "estimated")
    reason = None if same_model else Reason.MODEL_CHANGED
    if reason is None and left.was is not None:
        reason = _REASONS[left.part]
    verdict = Verdict(Judgement.UNKNOWN, None, None, could, None, None, without, saved)
    if replaced and reason is Reason.MESSAGES_CHANGED and not _lost_its_head(could, usage):
        return replace(verdict, judgement=Judgement.COMPACTED)
    if before.tokens is None:
        return verdict
    loss = Loss(
        before=before.tokens,
        prompt=compared.counted or before.tokens,
        reused=usage.reused,
        shared=could.tokens,
        change=reason,
        was_ok=before.was_ok,
        generated=before.generated,
        profile=profile,
        meanwhile=meanwhile,
        proof=proof,
        caches=caches,
    )
    if loss.reused is None:
        return _unmeasured(verdict, loss, compared)
    lost = _lost(loss, compared, usage)
    is_changed = loss.change is not None
    if lost.tokens <= allowed(loss.before, loss.prompt, profile.memory, changed=is_changed):
        return Verdict(Judgement.OK, None, None, could, lost, None, without, saved)
    return _broken(replace(verdict, lost=lost), loss, compared, usage)


def wants_proof(verdict: Verdict, usage: Usage) -> bool:
    """Whether the rendered prompts could tell more of a turn than ``verdict`` does."""
    if verdict.judgement is not Judgement.BREAK or verdict.basis in _PROVEN:
        return False
    if verdict.basis is Basis.COUNTED and verdict.expected is not None:
        away = abs(verdict.expected.tokens - (usage.reused or 0))
        return away > near(verdict.expected.tokens)
    return verdict.reason is not Reason.PREVIOUS_NOT_FOUND


def order_of(before: Before, sent: Prompt, usage: Usage) -> PromptOrder | None:
    """Return the order that alone predicts what was reused; None: both do, or neither."""
    fitting = [
        order
        for order, one in _in_each(before, sent, usage, _ORDERS)
        if abs(one.could.tokens - (usage.reused or 0)) <= near(one.could.tokens)
    ]
    return fitting[0] if usage.reused is not None and len(fitting) == 1 else None


def _compare(before: Before, sent: Prompt, usage: Usage, order: PromptOrder | None) -> _Compared:
    """Compare in ``order``; if that is not known, in the one that predicts best."""
    each = _in_each(before, sent, usage, _ORDERS if order is None else (order,))
    _, first = next(each)
    if order is not None or first.left.was is None or usage.reused is None:
        return first
    reused = usage.reused
    return min(first, *(one for _, one in each), key=lambda one: abs(one.could.tokens - reused))


def _in_each(
    before: Before, sent: Prompt, usage: Usage, orders: Iterable[PromptOrder]
) -> Iterator[tuple[PromptOrder, _Compared]]:
    for order in orders:
        was, now = reordered(before.sent, order), reordered(sent, order)
        left = parting(was, now)
        turned = before._replace(sent=was)
        counted = usage.prompt or _scaled(turned, now)
        yield order, _Compared(turned, now, left, _could(turned, left, now, counted), counted)


def _unaided(
    compared: _Compared, unedited: Prompt, profile: Profile, api: Dialect | None
) -> TokenCount:
    """Return what could have been reused had nobody edited a request: servers mend some, too."""
    before, order = compared.before, compared.sent.order
    was = as_unaided(reordered(before.unedited, order), api, profile)
    now = as_unaided(reordered(unedited, order), api, profile)
    return _could(before, parting(was, now), now, compared.counted)


def _could(before: Before, left: Parting, sent: Prompt, counted: int | None) -> TokenCount:
    if left.was is None and before.tokens is not None:
        return TokenCount(before.tokens, "measured")  # all of the turn before, which was counted
    return tokens_of(left.shared, sent, counted)


def _scaled(before: Before, sent: Prompt) -> int | None:
    """The tokens of ``sent`` by the density of the turn before, if that was counted."""
    if before.tokens is None or not before.sent.chars:
        return None
    return round(before.tokens * sent.chars / before.sent.chars)


def _lost_its_head(could: TokenCount, usage: Usage) -> bool:
    """Whether the server reused far less than the tools and the system text, which are equal."""
    if usage.reused is None:
        return False
    return could.tokens - usage.reused > max(near(0), 0.5 * could.tokens)


def _lost(loss: Loss, compared: _Compared, usage: Usage) -> TokenCount:
    """Return what was evaluated again although the server had it: at most what was evaluated.

    What the client took back, or put in other words, is no loss: a rewind, a branch.
    """
    reused = loss.reused or 0
    lost = max(0, loss.before - reused)
    if usage.prompt is not None:
        lost = min(lost, max(0, usage.prompt - reused))
    was = compared.before.sent
    if compared.left.was is None or not lost or not was.chars:
        return TokenCount(lost, "measured")
    gone = round(taken_back(was, compared.left, compared.sent) * loss.before / was.chars)
    if gone <= near(0):
        return TokenCount(lost, "measured")
    return TokenCount(max(0, min(lost, loss.before - reused - gone)), "estimated")


def _unmeasured(verdict: Verdict, loss: Loss, compared: _Compared) -> Verdict:
    """Nothing was measured: what changed is said, whether it cost anything is not."""
    lost = TokenCount(max(0, loss.before - loss.shared), "estimated")
    if loss.profile.reuses is False:
        lost = TokenCount(loss.before, "estimated")
        found = replace(verdict, judgement=Judgement.BREAK, reason=Reason.NOT_CACHED, lost=lost)
        return replace(found, basis=Basis.TOLD)
    unknown = replace(verdict, lost=lost)
    is_changed = loss.change is not None
    if lost.tokens <= allowed(loss.before, loss.prompt, loss.profile.memory, changed=is_changed):
        return unknown
    where = None
    if loss.change in _TEXTUAL:
        where = located(compared.left, compared.before.sent, compared.sent, compared.counted)
    return replace(unknown, reason=loss.change, where=where)


def _broken(verdict: Verdict, loss: Loss, compared: _Compared, usage: Usage) -> Verdict:
    cause, lost = cause_of(loss), verdict.lost
    assert lost is not None
    where, left, proof = None, compared.left, loss.proof
    named = cause.beneath or cause.reason
    if named is Reason.TEMPLATE_CHANGED and proof is not None:
        where = proof.where
    elif left.was is not None and named in _TEXTUAL:
        # Where only the model changed, or the server dropped it, no text is to blame.
        where = located(left, compared.before.sent, compared.sent, compared.counted)
    expected = verdict.expected
    if proof is not None:
        expected = TokenCount(min(proof.shared, usage.prompt or proof.shared), "measured")
        if where is not None:
            where = replace(where, position=expected)
    if cause.rewrite is Rewrite.CLOCK and cause.reason is Reason.TEMPLATE_CHANGED:
        # Both prompts were rendered at one time: where they part it shows by what was reused.
        where, expected = None, TokenCount(loss.reused or 0, "measured")
    return replace(
        verdict,
        judgement=Judgement.BREAK,
        reason=cause.reason,
        where=where,
        expected=expected,
        seconds_lost=_seconds(lost, usage),
        basis=cause.basis,
        rewrite=cause.rewrite,
        beneath=cause.beneath,
        evidence=cause.evidence,
        ruled_out=cause.ruled_out,
    )


def _seconds(lost: TokenCount, usage: Usage) -> float | None:
    if not usage.prompt_seconds or not usage.evaluated:
        return None
    return usage.prompt_seconds * min(1.0, lost.tokens / usage.evaluated)


def _first(sent: Prompt, usage: Usage, *, known: bool) -> Verdict:
    """The first turn that we see; the conversation may have begun before us.

    It is not cold where the server had most of it: others' prompts may begin alike.
    """
    if usage.prompt and (usage.reused or 0) >= usage.prompt / 2:
        return Verdict(Judgement.OK)
    is_begun = any(segment.source == "model" for segment in sent.segments)
    return Verdict(
        Judgement.COLD, evidence=(Evidence.BEGUN_ELSEWHERE,) if is_begun and not known else ()
    )


def _without_before(usage: Usage) -> Verdict:
    """A later turn whose predecessor we no longer know: only the server can say."""
    if usage.prompt is None or usage.reused is None:
        return Verdict(Judgement.UNKNOWN)
    if usage.reused >= usage.prompt / 2:
        return Verdict(Judgement.OK)
    return Verdict(Judgement.BREAK, Reason.PREVIOUS_NOT_FOUND)
