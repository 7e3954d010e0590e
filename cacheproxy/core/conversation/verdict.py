"""The verdict on a turn: whether it reused the one before, if not why, and the cost.

The reasons use the words of the public cache-diagnostics API, and some of our own.
``cacheproxy.core.judge.judge`` makes the verdict.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cacheproxy.core.diff.kind import ChangeKind


class Judgement(StrEnum):
    """The judgement of a turn in one word."""

    OK = "ok"
    COLD = "cold"
    COMPACTED = "compacted"
    CUT = "cut"
    BREAK = "BREAK"
    UNKNOWN = "-"


class Reason(StrEnum):
    """The reason of a break."""

    MODEL_CHANGED = "model_changed"
    SYSTEM_CHANGED = "system_changed"
    TOOLS_CHANGED = "tools_changed"
    MESSAGES_CHANGED = "messages_changed"
    PARAMETERS_CHANGED = "parameters_changed"
    PREVIOUS_NOT_FOUND = "previous_message_not_found"
    TEMPLATE_CHANGED = "template_changed"
    CHECKPOINT = "checkpoint"
    CONTEXT_SHIFTED = "context_shifted"
    CUT = "cut"
    NOT_CACHED = "not_cached"
    MOVED = "moved"
    EVICTED = "evicted"
    UNKNOWN = "unknown"


CHANGED = frozenset(
    {
        Reason.SYSTEM_CHANGED,
        Reason.TOOLS_CHANGED,
        Reason.MESSAGES_CHANGED,
        Reason.PARAMETERS_CHANGED,
    }
)
"""Reasons that are in the requests themselves: a text is to blame, and a rule may help."""


class Rewrite(StrEnum):
    """A template's change of text that it had rendered before."""

    THINKING = "thinking dropped"
    KEPT = "thinking kept"
    HOISTED = "system message hoisted"
    TOOLS = "tools moved"
    CLOCK = "clock"
    OTHER = "rendered anew"


class Basis(StrEnum):
    """The evidence for a cause, which is named only with one of these."""

    RENDERED = "rendered"
    COUNTED = "counted"
    TOLD = "told"


class Sign(StrEnum):
    """A sign that a server had dropped a prompt, or that earlier turns were not seen here."""

    RESTARTED = "the server was restarted"
    OTHERS = "another conversation had its place meanwhile"
    SLOTS = "no slot held it any more"
    FULL = "more was evaluated meanwhile than the cache holds"
    NOT_WANTED = 'the request says "cache_prompt": false'
    BEGUN_ELSEWHERE = "it begins with answers that were not seen here, so pinned values begin anew"


class TokenCount(msgspec.Struct, frozen=True):
    """A number of tokens with its source."""

    tokens: int  #: number of tokens
    source: str  #: ``measured`` or ``estimated``


class Break(msgspec.Struct, frozen=True):
    """The first difference of a turn from the one before."""

    path: str  #: JSON pointer in the later request
    byte: int  #: offset of the first difference in the text at ``path``, in UTF-8 bytes
    position: TokenCount  #: tokens from the start of the prompt
    kind: ChangeKind  #: shape of the change
    was: str  #: excerpt of the earlier text, shown on request, never logged
    now: str  #: excerpt of the later text, likewise
    source: str = ""  #: author of that text (see ``Segment.source``), "" if unknown


class Verdict(msgspec.Struct, frozen=True):
    """The reuse of one turn, compared with the reuse that was possible."""

    judgement: Judgement  #: judgement in one word
    reason: Reason | None = None  #: reason why cached tokens were lost
    where: Break | None = None  #: first difference of the requests
    expected: TokenCount | None = None
    """Tokens that the server could reuse, by our comparison of the prompts."""
    lost: TokenCount | None = None  #: tokens of the turn before that were evaluated again
    seconds_lost: float | None = None
    """Seconds for the ``lost`` tokens: at this turn's own speed, else at its upstream's recent."""
    unedited: TokenCount | None = None  #: tokens that could be reused if no body had been edited
    saved: TokenCount | None = None  #: further tokens of ``expected``, thanks to edits
    basis: Basis | None = None  #: evidence for the reason
    rewrite: Rewrite | None = None
    """The template's change (TEMPLATE_CHANGED, or beneath a CHECKPOINT)."""
    beneath: Reason | None = None  #: for CHECKPOINT: reason why the prompts differ at all
    evidence: tuple[Sign, ...] = ()  #: signs for EVICTED, and for COLD
    ruled_out: tuple[str, ...] = ()  #: for UNKNOWN: causes that were ruled out, for people
    whole: TokenCount | None = None
    """For CUT: tokens of the prompt at least, or if ``estimated``, about; None if the cut is known
    from the server's report alone."""


class Spared(msgspec.Struct, frozen=True):
    """Tokens and time that were not spent, thanks to us; both are estimates."""

    tokens: int  #: tokens not evaluated; below 0: evaluated because of us
    seconds: float | None = None
    """Time of the turn without us less its real time, computed once, when it ended; None if no
    speed was known then."""


def spared_tokens(reused: int | None, verdict: Verdict | None) -> int | None:
    """Return the tokens that were not evaluated thanks to us, None if that is not known.

    The server reused ``reused`` tokens of the turn as it was sent. Without edits it could have
    reused the tokens up to the first difference between the turn, as the server would have seen it
    (see ``judge.evidence``), and the one before, as that came. Tokens reused beyond that place are
    due to the edits. They count against the edits if these made two turns differ that came alike (a
    rule that has just been switched on). The place is in characters, so the tokens are an estimate;
    the assumption that the server would have reused all up to it is in the server's favour.

    The result is 0 if the edits did not lengthen the common part of two turns, and None if the
    server does not report the tokens reused.
    """
    if reused is None or verdict is None or verdict.expected is None or verdict.unedited is None:
        return None
    with_edits, without = verdict.expected.tokens, verdict.unedited.tokens
    if with_edits > without:
        return max(0, reused - without)
    if with_edits < without and {verdict.reason, verdict.beneath} & CHANGED:
        return min(0, reused - without)
    return 0
