"""How many tokens a turn did not evaluate, thanks to our edits."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import CHANGED, Verdict


@dataclass(frozen=True, slots=True)
class Spared:
    """What was not evaluated thanks to us; both are estimates."""

    tokens: int  #: below 0: evaluated because of us
    seconds: float | None = None
    """What the turn would have taken without us, less what it took, priced once, when it happened;
    None: at a speed that nobody knew."""


def spared_tokens(reused: int | None, verdict: Verdict | None) -> int | None:
    """Return the tokens not evaluated thanks to us; None where nobody knows.

    The server reused ``reused`` tokens of the turn as it was sent. Had no body been edited, it
    could have reused those up to where the turn, as the server would have seen it
    (``core.repairs``), leaves the one before, as that came: the place of the first difference that
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
