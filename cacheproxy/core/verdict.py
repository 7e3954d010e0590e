"""Whether a turn reused the one before, and if not, why, and what it cost.

The reasons are the words of the public cache-diagnostics API, and ``evicted`` of our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cacheproxy.core.difference import Kind, Token, token_at
from cacheproxy.core.prefix import Parting, parting
from cacheproxy.core.prompt import Part, Prompt
from cacheproxy.core.usage import Usage

_TOLERANCE = 0.05
"""Share of the turn before that may be computed again without being called a break: servers
reuse whole batches, and templates close the last message in their own way."""
_TOLERANCE_TOKENS = 32
_CHARS_PER_TOKEN = 4.0
"""Used only where no server has counted yet; then the figure says ``estimated``."""
_EXCERPT = 120


class Judgement(StrEnum):
    """One word for a turn."""

    OK = "ok"
    COLD = "cold"
    COMPACTED = "compacted"
    BREAK = "BREAK"
    UNKNOWN = "-"


class Reason(StrEnum):
    """Why a turn broke."""

    MODEL_CHANGED = "model_changed"
    SYSTEM_CHANGED = "system_changed"
    TOOLS_CHANGED = "tools_changed"
    MESSAGES_CHANGED = "messages_changed"
    PREVIOUS_NOT_FOUND = "previous_message_not_found"
    TEMPLATE_CHANGED = "template_changed"
    CHECKPOINT = "checkpoint"
    CONTEXT_SHIFTED = "context_shifted"
    NOT_CACHED = "not_cached"
    MOVED = "moved"
    EVICTED = "evicted"
    UNKNOWN = "unknown"


class Rewrite(StrEnum):
    """What a template did to what it had rendered before."""

    THINKING = "thinking dropped"
    HOISTED = "system message hoisted"
    TOOLS = "tools moved"
    CLOCK = "clock"
    OTHER = "rendered anew"


class Basis(StrEnum):
    """What a cause rests on: a cause is named only with one of these."""

    RENDERED = "rendered"
    COUNTED = "counted"
    TOLD = "told"


class Evidence(StrEnum):
    """What shows that a server had dropped a prompt."""

    RESTARTED = "the server was restarted"
    OTHERS = "another conversation had its place meanwhile"
    SLOTS = "no slot held it any more"
    FULL = "more was evaluated meanwhile than the cache holds"


_REASONS = {
    Part.SYSTEM: Reason.SYSTEM_CHANGED,
    Part.TOOLS: Reason.TOOLS_CHANGED,
    Part.MESSAGES: Reason.MESSAGES_CHANGED,
}


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tokens that says where it comes from: ``measured`` or ``estimated``."""

    tokens: int
    source: str


_NOTHING = Count(0, "estimated")


@dataclass(frozen=True, slots=True)
class Break:
    """Where and how a turn left the one before.

    ``path``: JSON pointer in the later request. ``byte``: offset of the first difference in the
    text at ``path``, in UTF-8 bytes. ``position``: in tokens from the start of the prompt.
    ``kind``: the shape of what changed. ``was``, ``now``: excerpts, for those who ask; they are
    prompt text, so they are never logged.
    """

    path: str
    byte: int
    position: Count
    kind: Kind
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one turn's reuse was, against what it could have been.

    ``expected``: tokens the server could reuse, by our comparison of the prompts; ``lost``: of
    the turn before, those it evaluated again; ``seconds_lost``: at this turn's own speed.
    ``unedited``: what could have been reused had no body been edited; ``saved`` is the rest.
    ``basis``: what the reason rests on. ``rewrite``: what the template did (TEMPLATE_CHANGED, or
    beneath a CHECKPOINT). ``beneath``: of a CHECKPOINT, why the prompts part at all.
    ``evidence``: of EVICTED. ``ruled_out``: of UNKNOWN, what it was not, for people.
    """

    judgement: Judgement
    reason: Reason | None = None
    where: Break | None = None
    expected: Count | None = None
    lost: Count | None = None
    seconds_lost: float | None = None
    unedited: Count | None = None
    saved: Count | None = None
    basis: Basis | None = None
    rewrite: Rewrite | None = None
    beneath: Reason | None = None
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[str, ...] = ()


class Before(NamedTuple):
    """The turn before: its prompt as sent and unedited, and its tokens if they were counted."""

    sent: Prompt
    unedited: Prompt
    tokens: int | None = None


def judge(
    before: Before | None,
    sent: Prompt,
    unedited: Prompt,
    usage: Usage,
    *,
    first: bool,
    replaced: bool = False,
) -> Verdict:
    """Return the verdict on a turn whose prompt was ``sent``, ``unedited`` as it came.

    ``before`` is None for a session's ``first`` turn, or when we have forgotten the last one.
    ``replaced``: the client wrote the history anew (see ``turns.Place``); that is no break as long
    as what stands before the messages was reused.
    """
    if before is None:
        if first:
            return Verdict(Judgement.COLD)
        return Verdict(Judgement.COMPACTED) if replaced else _without_before(usage)
    left = parting(before.sent, sent)
    same_model = before.sent.model == sent.model
    could = without = _NOTHING
    if same_model:
        could = without = _could_reuse(before, left, sent, usage)
        if unedited is not sent or before.unedited is not before.sent:
            without = _counterfactual(before, unedited, usage)
    saved = _saved(usage, could, without)
    reason = None if same_model else Reason.MODEL_CHANGED
    if reason is None and left.was is not None:
        reason = _REASONS[left.part]
    if replaced and reason is Reason.MESSAGES_CHANGED and not _lost_its_head(could, usage):
        return Verdict(Judgement.COMPACTED, None, None, could, None, None, without, saved)
    lost = _lost(before, could, usage)
    broke = lost is not None and lost.tokens > _allowed(before, sent, usage)
    if not broke:
        judged = Judgement.OK if lost is not None else Judgement.UNKNOWN
        return Verdict(judged, None, None, could, lost, None, without, saved)
    if reason is None or _was_evicted(could, usage, before, sent):
        reason = Reason.EVICTED
    # Where the server dropped it, or only the model changed, no text is to blame.
    is_text = reason is not Reason.EVICTED and left.was is not None
    where = _where(left, sent, usage, before) if is_text else None
    seconds = _seconds(lost, usage)
    return Verdict(Judgement.BREAK, reason, where, could, lost, seconds, without, saved)


def tokens_of(chars: int, prompt: Prompt, counted: int | None) -> Count:
    """Return how many tokens ``chars`` characters of ``prompt`` are; ``counted``: of all of it."""
    if counted and prompt.chars:
        return Count(round(chars * counted / prompt.chars), "estimated")
    return Count(round(chars / _CHARS_PER_TOKEN), "estimated")


def describe_change(left: Parting) -> tuple[Kind, Token | None]:
    """Return the kind of the first difference, and the token that changed if it is one."""
    was, now = left.was, left.now
    if was is None or now is None:
        return (Kind.ADDED if was is None else Kind.REMOVED), None
    token = token_at(was.text, now.text, left.was_at, left.now_at)
    if token is not None:
        return token.kind, token
    if was.part is not now.part:
        return (Kind.REMOVED if left.part is was.part else Kind.ADDED), None
    return (Kind.TEXT if was.path == now.path else Kind.MOVED), None


def parted_at(before: Before, sent: Prompt, usage: Usage) -> Break | None:
    """Return where ``sent`` leaves the turn before, also where too near the end for a break."""
    left = parting(before.sent, sent)
    return None if left.was is None else _where(left, sent, usage, before)


def _could_reuse(before: Before, left: Parting, sent: Prompt, usage: Usage) -> Count:
    if left.was is None and before.tokens is not None:
        return Count(before.tokens, "measured")  # all of the turn before, which was counted
    return tokens_of(left.shared, sent, usage.prompt or _scaled(before, sent))


def _counterfactual(before: Before, unedited: Prompt, usage: Usage) -> Count:
    came = Before(before.unedited, before.unedited, before.tokens)
    return _could_reuse(came, parting(came.sent, unedited), unedited, usage)


def _scaled(before: Before, sent: Prompt) -> int | None:
    """The tokens of ``sent`` by the density of the turn before, if that was counted."""
    if before.tokens is None or not before.sent.chars:
        return None
    return round(before.tokens * sent.chars / before.sent.chars)


def _saved(usage: Usage, could: Count, without: Count) -> Count:
    if usage.reused is None:
        return Count(max(0, could.tokens - without.tokens), "estimated")
    if could.tokens <= without.tokens:
        return _NOTHING
    # The server never reuses less without the edits than what stayed equal unedited.
    return Count(max(0, usage.reused - min(without.tokens, usage.reused)), "estimated")


def _lost(before: Before, could: Count, usage: Usage) -> Count | None:
    """Tokens of the turn before that were evaluated again; by our comparison if uncounted."""
    if before.tokens is None:
        return None
    if usage.reused is not None:
        return Count(max(0, before.tokens - usage.reused), "measured")
    return Count(max(0, before.tokens - could.tokens), "estimated")


def _allowed(before: Before, sent: Prompt, usage: Usage) -> float:
    """A prompt that has become shorter than the one before cannot reuse all of it."""
    shorter = max(0, (before.tokens or 0) - (usage.prompt or _scaled(before, sent) or 0))
    return shorter + max(_TOLERANCE_TOKENS, _TOLERANCE * (before.tokens or 0))


def _lost_its_head(could: Count, usage: Usage) -> bool:
    """Whether the server reused far less than the tools and the system text, which are equal."""
    if usage.reused is None:
        return False
    return could.tokens - usage.reused > max(_TOLERANCE_TOKENS, 0.5 * could.tokens)


def _was_evicted(could: Count, usage: Usage, before: Before, sent: Prompt) -> bool:
    """Whether the server reused far less than the prompts share: then the change is not why."""
    if usage.reused is None:
        return False
    missing = could.tokens - usage.reused
    return missing > max(_allowed(before, sent, usage), 0.5 * could.tokens)


def _where(left: Parting, sent: Prompt, usage: Usage, before: Before) -> Break:
    kind, _ = describe_change(left)
    text = left.now.text[: left.now_at] if left.now is not None else ""
    return Break(
        path=left.path,
        byte=len(text.encode("utf-8", "surrogatepass")),
        position=tokens_of(left.shared, sent, usage.prompt or _scaled(before, sent)),
        kind=kind,
        was=_excerpt(left.was.text if left.was else "", left.was_at),
        now=_excerpt(left.now.text if left.now else "", left.now_at),
    )


def _excerpt(text: str, at: int) -> str:
    return text[max(0, at - _EXCERPT // 2) : at + _EXCERPT]


def _seconds(lost: Count | None, usage: Usage) -> float | None:
    if lost is None or not usage.prompt_seconds or not usage.evaluated:
        return None
    return usage.prompt_seconds * min(1.0, lost.tokens / usage.evaluated)


def _without_before(usage: Usage) -> Verdict:
    """A later turn whose predecessor we no longer know: only the server can say."""
    if usage.prompt is None or usage.reused is None:
        return Verdict(Judgement.UNKNOWN)
    if usage.reused >= usage.prompt / 2:
        return Verdict(Judgement.OK)
    return Verdict(Judgement.BREAK, Reason.PREVIOUS_NOT_FOUND)
