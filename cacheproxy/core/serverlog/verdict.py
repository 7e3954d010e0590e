"""A verdict on a request that is known only from a server's log.

A log does not name the conversation of a request. So the request is compared by size with those
before it: a turn is a little longer than the turn it extends.
"""

from __future__ import annotations

from collections.abc import Collection

from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.core.serverlog.record import LoggedRequest

REMEMBERED = 16
"""Requests: a conversation's last turn is hardly further back, and its cache hardly alive."""
_SHORT = 256
"""Tokens: a prompt below this has next to nothing to lose."""
_KEPT = 0.9
_GROWN = 1.05
"""A turn may be a little shorter than the one before: an answer's reasoning goes."""


def judge_logged(request: LoggedRequest, earlier: Collection[int]) -> tuple[Judgement, str]:
    """Return the verdict on ``request`` and the reason in a few words.

    ``earlier``: the lengths, in tokens, of the last prompts of its server.
    """
    prompt, reused, kept = request.prompt, request.reused, request.kept
    if request.error is not None:
        return Judgement.UNKNOWN, request.error
    if prompt is None or reused is None:
        return Judgement.UNKNOWN, "the log does not say what was reused"
    like = max((length for length in earlier if length <= _GROWN * prompt), default=0)
    like = min(like, prompt)
    extends = like >= _SHORT and reused >= _KEPT * like
    keeps = kept is not None and kept >= _KEPT and reused >= _SHORT
    if extends or keeps or reused >= prompt / 2:
        return Judgement.OK, ""
    if not earlier:
        return Judgement.COLD, "the first one"
    if prompt < _SHORT:
        return Judgement.COLD, "a short prompt"
    if like < prompt / 2:
        return Judgement.COLD, "none like it came before"
    if request.recomputed:
        return Judgement.BREAK, "computed all anew: memory"
    if request.shared is not None:
        return Judgement.BREAK, f"only {request.shared:,} tokens still held"
    return Judgement.BREAK, f"one of {like:,} came before"
