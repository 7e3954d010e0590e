"""The values of a verdict: did a turn reuse the one before, if not why, and what it cost.

The reasons use the words of the public cache-diagnostics API, and some of our own.
``cacheproxy.core.judge.judge`` reaches a verdict.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cacheproxy.core.diff.kind import ChangeKind


class Judgement(StrEnum):
    """One word for a turn."""

    OK = "ok"
    COLD = "cold"
    COMPACTED = "compacted"
    CUT = "cut"
    BREAK = "BREAK"
    UNKNOWN = "-"


class Reason(StrEnum):
    """Why a turn broke."""

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
"""Reasons that stand in the requests themselves: a text is to blame, and a rule may help."""


class Rewrite(StrEnum):
    """What a template did to what it had rendered before."""

    THINKING = "thinking dropped"
    KEPT = "thinking kept"
    HOISTED = "system message hoisted"
    TOOLS = "tools moved"
    CLOCK = "clock"
    OTHER = "rendered anew"


class Basis(StrEnum):
    """What a cause rests on: a cause is named only with one of these."""

    RENDERED = "rendered"
    COUNTED = "counted"
    TOLD = "told"


class Sign(StrEnum):
    """What shows that a server had dropped a prompt, or that we have not seen the turns before."""

    RESTARTED = "the server was restarted"
    OTHERS = "another conversation had its place meanwhile"
    SLOTS = "no slot held it any more"
    FULL = "more was evaluated meanwhile than the cache holds"
    NOT_WANTED = 'the request says "cache_prompt": false'
    BEGUN_ELSEWHERE = "it begins with answers that were not seen here, so pinned values begin anew"


class TokenCount(msgspec.Struct, frozen=True):
    """A number of tokens that says where it comes from."""

    tokens: int  #: how many
    source: str  #: ``measured`` or ``estimated``


class Break(msgspec.Struct, frozen=True):
    """Where and how a turn left the one before."""

    path: str  #: JSON pointer in the later request
    byte: int  #: offset of the first difference in the text at ``path``, in UTF-8 bytes
    position: TokenCount  #: in tokens from the start of the prompt
    kind: ChangeKind  #: the shape of what changed
    was: str  #: excerpt of the earlier text, for those who ask; never logged
    now: str  #: excerpt of the later text, likewise
    source: str = ""  #: who wrote that text (see prompt.Segment), "" where nobody knows


class Verdict(msgspec.Struct, frozen=True):
    """What one turn's reuse was, against what it could have been."""

    judgement: Judgement  #: what became of the cache
    reason: Reason | None = None  #: why it was lost
    where: Break | None = None  #: the requests part
    expected: TokenCount | None = None
    """Tokens the server could reuse, by our comparison of the prompts."""
    lost: TokenCount | None = None  #: tokens of the turn before that it evaluated again
    seconds_lost: float | None = None
    """At this turn's own speed, else by what its upstream took lately."""
    unedited: TokenCount | None = (
        None  #: tokens that could have been reused had no body been edited
    )
    saved: TokenCount | None = None  #: the rest of ``expected``, thanks to edits
    basis: Basis | None = None  #: what the reason rests on
    rewrite: Rewrite | None = None
    """What the template did (TEMPLATE_CHANGED, or beneath a CHECKPOINT)."""
    beneath: Reason | None = None  #: of a CHECKPOINT, why the prompts part at all
    evidence: tuple[Sign, ...] = ()  #: of EVICTED, and of COLD
    ruled_out: tuple[str, ...] = ()  #: of UNKNOWN, what it was not, for people
    whole: TokenCount | None = None
    """Of CUT, how many tokens the prompt has: at least, or, where ``estimated``, about; None: only
    the server says that it cut."""


class Spared(msgspec.Struct, frozen=True):
    """What was not evaluated thanks to us; both are estimates."""

    tokens: int  #: below 0: evaluated because of us
    seconds: float | None = None
    """What the turn would have taken without us, less what it took, priced once, when it happened;
    None: at a speed that nobody knew."""


def spared_tokens(reused: int | None, verdict: Verdict | None) -> int | None:
    """Return the tokens not evaluated thanks to us; None where nobody knows.

    The server reused ``reused`` tokens of the turn as it was sent. Had no body been edited, it
    could have reused those up to where the turn, as the server would have seen it (see
    ``judge.evidence``), leaves the one before, as that came: the place of the first difference that
    the edits took away. What it reused beyond is due to them. Counted against them where they
    made two turns differ that came alike (a rule that has just been switched on). The place is in
    characters, so the tokens are an estimate; that the server would have reused all up to it is in
    the server's favour.

    Nothing is claimed where the edits did not lengthen what two turns share, nor where the server
    does not say what it reused.
    """
    if reused is None or verdict is None or verdict.expected is None or verdict.unedited is None:
        return None
    with_edits, without = verdict.expected.tokens, verdict.unedited.tokens
    if with_edits > without:
        return max(0, reused - without)
    if with_edits < without and {verdict.reason, verdict.beneath} & CHANGED:
        return min(0, reused - without)
    return 0
