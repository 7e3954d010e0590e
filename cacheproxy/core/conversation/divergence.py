"""The place where two prompts begin to differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, compress, count, islice, takewhile
from operator import attrgetter, is_not
from typing import NamedTuple

from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.diff.text import kept_chars
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.segments import Piece

_SEGMENTS, _CHARS, _TEXT = map(attrgetter, ("segments", "chars", "text"))


class Parting(NamedTuple):
    """The first place where a prompt differs from the one before it in its session."""

    shared: int  #: characters equal from the start, in template order
    was: Segment | None  #: the segment of the earlier prompt that differs; None: it has ended
    now: Segment | None  #: that of the later prompt; None: it has ended
    was_at: int  #: where in ``was``, in characters
    now_at: int  #: where in ``now``, in characters
    part: Part = Part.MESSAGES
    """What the break is named after: the part that changed, also where the last of its segments has
    gone and the next part follows sooner."""

    @property
    def path(self) -> str:
        """JSON pointer of the value that differs, in the later request if it is there."""
        segment = self.now or self.was
        return segment.path if segment is not None else ""


def parting(before: Prompt, after: Prompt) -> Parting:
    """Return where ``after`` leaves ``before``; linear in the shared text.

    The prompts are compared as texts, so it does not matter how they are cut into segments. The
    pieces that both have are passed over: all there is before, as a rule.
    """
    ours, theirs = before.pieces, after.pieces
    same = _alike(ours, theirs)
    left, right = _segments(ours, same), _segments(theirs, same)
    shared = before.chars if same == len(ours) else sum(map(_CHARS, ours[:same]))
    was, now = next(left, None), next(right, None)
    at_was = at_now = 0
    while was is not None and now is not None:
        length = min(len(was.text) - at_was, len(now.text) - at_now)
        one, other = was.text[at_was : at_was + length], now.text[at_now : at_now + length]
        if one != other:
            equal = common_prefix(one, other)
            part = _part(was, now, left)
            return Parting(shared + equal, was, now, at_was + equal, at_now + equal, part)
        shared += length
        at_was += length
        at_now += length
        if at_was == len(was.text):
            was, at_was = next(left, None), 0
        if at_now == len(now.text):
            now, at_now = next(right, None), 0
    while was is not None and not was.text[at_was:]:  # an empty text takes nothing away
        was, at_was = next(left, None), 0
    return Parting(shared, was, now, at_was, at_now, _part(was, now, left))


def taken_back(before: Prompt, left: Parting, after: Prompt) -> int:
    """Return how many characters of ``before`` its client has taken back, or put in other words.

    Those behind the place where they part that ``after`` has nowhere behind it.
    """
    if left.was is None:
        return 0
    ours, theirs = _behind(before, left.was, left.was_at), _behind(after, left.now, left.now_at)
    gone, new = list((ours - theirs).elements()), list((theirs - ours).elements())
    return sum(map(len, gone)) - kept_chars("\n".join(gone), "\n".join(new))


def _behind(prompt: Prompt, segment: Segment | None, at: int) -> Counter[str]:
    """Return the texts of ``prompt`` behind that place."""
    if segment is None:
        return Counter()
    behind = takewhile(lambda one: one is not segment, reversed(prompt.segments))
    return Counter([segment.text[at:], *(one.text for one in behind)])


def _alike(ours: tuple[Piece, ...], theirs: tuple[Piece, ...]) -> int:
    """Return how many pieces from the start are the very same, or read alike."""
    for number in compress(count(), map(is_not, ours, theirs)):
        if _texts(ours[number]) != _texts(theirs[number]):
            return number
    return min(len(ours), len(theirs))


def _texts(piece: Piece) -> list[str]:
    return list(map(_TEXT, piece.segments))


def _segments(pieces: tuple[Piece, ...], first: int) -> Iterator[Segment]:
    """The segments of the pieces from ``first`` on, one by one: mostly few are asked for."""
    return chain.from_iterable(map(_SEGMENTS, islice(pieces, first, None)))


def _part(was: Segment | None, now: Segment | None, more: Iterator[Segment]) -> Part:
    """Return the part that a prompt leaves, or that it goes on with; ``more``: behind ``was``."""
    if was is None or now is None:
        segment = was or now
        return segment.part if segment is not None else Part.MESSAGES
    # The later prompt may have gone on to a part that is still to come in the earlier one.
    if was.part is now.part or any(segment.part is now.part for segment in more):
        return was.part
    return now.part
