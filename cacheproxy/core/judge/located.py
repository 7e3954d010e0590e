"""The place where a turn differs from the one before, as a Break, and its distance in tokens."""

from __future__ import annotations

import json

from cacheproxy.core.conversation.divergence import Parting, parting
from cacheproxy.core.conversation.verdict import Break, TokenCount
from cacheproxy.core.diff.kind import ChangeKind, Token, token_at
from cacheproxy.core.diff.text import share_of_words
from cacheproxy.core.document.alike import alike
from cacheproxy.core.prompt.prompt import Part, Prompt, Segment
from cacheproxy.core.prompt.segments import Piece

_CHARS_PER_TOKEN = 4.0
"""Used only where no server has counted yet; then the figure says ``estimated``."""
_EXCERPT = 120
_SAME = 0.5
"""Share of its words from which a message is the same one, some of it changed."""


def tokens_of(chars: int, prompt: Prompt, counted: int | None) -> TokenCount:
    """Return how many tokens ``chars`` characters of ``prompt`` are; ``counted``: of all of it."""
    if counted and prompt.chars:
        return TokenCount(round(chars * counted / prompt.chars), "estimated")
    return TokenCount(round(chars / _CHARS_PER_TOKEN), "estimated")


def describe_change(left: Parting, before: Prompt, sent: Prompt) -> tuple[ChangeKind, Token | None]:
    """Return the kind of the first difference, and the token that changed if it is one."""
    was, now = left.was, left.now
    if was is None or now is None:
        return (ChangeKind.ADDED if was is None else ChangeKind.REMOVED), None
    if _goes_along(was, now, before, sent):
        return ChangeKind.MOVED, None
    if was.part is now.part is Part.TOOLS and _same_tools(was, now, before, sent):
        return ChangeKind.REORDERED, None
    token = token_at(was.text, now.text, left.was_at, left.now_at)
    if token is not None:
        return token.kind, token
    if was.part is not now.part:
        return (ChangeKind.REMOVED if left.part is was.part else ChangeKind.ADDED), None
    return (ChangeKind.TEXT if was.path == now.path else ChangeKind.MOVED), None


def _same_tools(was: Segment, now: Segment, before: Prompt, sent: Prompt) -> bool:
    """Whether the tools are those of the turn before in another order, or ``was`` only respelt."""
    ours, theirs = (
        sorted(tool.text for tool in prompt.of(Part.TOOLS)) for prompt in (before, sent)
    )
    if ours == theirs:
        return True
    try:
        return alike(json.loads(was.text), json.loads(now.text))
    except (ValueError, RecursionError):
        return False


def _goes_along(was: Segment, now: Segment, before: Prompt, sent: Prompt) -> bool:
    """Whether ``was`` is of the last message, which stands last again, behind what is new."""
    message, last, there = before.pieces[-1], sent.pieces[-1], _message_of(now, sent)
    if there is last or not _holds(message, was):
        return False
    return _share(message, last) >= _SAME > _share(message, there)


def _message_of(segment: Segment, prompt: Prompt) -> Piece:
    return next(piece for piece in reversed(prompt.pieces) if _holds(piece, segment))


def _holds(piece: Piece, segment: Segment) -> bool:
    return any(one is segment for one in piece.segments)


def _share(one: Piece, other: Piece) -> float:
    ours, theirs = (" ".join(part.text for part in piece.segments) for piece in (one, other))
    return share_of_words(ours, theirs)


def parted_at(before: Prompt, sent: Prompt, counted: int | None) -> Break | None:
    """Return where ``sent`` leaves the turn before, also where too near the end for a break."""
    left = parting(before, sent)
    return None if left.was is None else located(left, before, sent, counted)


def located(left: Parting, before: Prompt, sent: Prompt, counted: int | None) -> Break:
    """Return where ``sent``, of ``counted`` tokens, leaves the turn ``before``."""
    kind, _ = describe_change(left, before, sent)
    text = left.now.text[: left.now_at] if left.now is not None else ""
    return Break(
        path=left.path,
        byte=len(text.encode("utf-8", "surrogatepass")),
        position=tokens_of(left.shared, sent, counted),
        kind=kind,
        was=excerpt(left.was.text if left.was else "", left.was_at),
        now=excerpt(left.now.text if left.now else "", left.now_at),
    )


def excerpt(text: str, at: int) -> str:
    """Return some of ``text`` around ``at``."""
    return text[max(0, at - _EXCERPT // 2) : at + _EXCERPT]
