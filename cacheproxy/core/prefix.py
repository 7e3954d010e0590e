"""Where two prompts part."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter, is_

from cacheproxy.core.overlap import common_prefix
from cacheproxy.core.prompt import Part, Prompt, Segment

_TEXT = attrgetter("text")


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place where a prompt differs from the one before it in its session.

    ``shared``: characters equal from the start, in template order. ``was`` and ``now``: the
    segments that differ (None: that prompt has ended), and ``was_at``, ``now_at`` where in them.
    ``part``: what the break is named after: the part that changed, also where the last of its
    segments has gone and the next part follows sooner.
    """

    shared: int
    was: Segment | None
    now: Segment | None
    was_at: int
    now_at: int
    part: Part = Part.MESSAGES

    @property
    def path(self) -> str:
        """JSON pointer of the value that differs, in the later request if it is there."""
        segment = self.now or self.was
        return segment.path if segment is not None else ""


def parting(before: Prompt, after: Prompt) -> Parting:
    """Return where ``after`` leaves ``before``; linear in the shared text.

    The prompts are compared as texts, so it does not matter how they are cut into segments.
    """
    ours, theirs = before.segments, after.segments
    i = j = _same(ours, theirs)
    shared = before.chars if i == len(ours) else sum(map(len, map(_TEXT, ours[:i])))
    at_i = at_j = 0
    while i < len(ours) and j < len(theirs):
        one, other = ours[i].text, theirs[j].text
        length = min(len(one) - at_i, len(other) - at_j)
        left, right = one[at_i : at_i + length], other[at_j : at_j + length]
        if left != right:
            equal = common_prefix(left, right)
            part = _part(ours[i:], theirs[j:])
            return Parting(shared + equal, ours[i], theirs[j], at_i + equal, at_j + equal, part)
        shared += length
        at_i += length
        at_j += length
        if at_i == len(one):
            i, at_i = i + 1, 0
        if at_j == len(other):
            j, at_j = j + 1, 0
    while i < len(ours) and not ours[i].text[at_i:]:  # an empty text takes nothing away
        i, at_i = i + 1, 0
    was = ours[i] if i < len(ours) else None
    now = theirs[j] if j < len(theirs) else None
    return Parting(shared, was, now, at_i, at_j, _part(ours[i:], theirs[j:]))


def _same(ours: tuple[Segment, ...], theirs: tuple[Segment, ...]) -> int:
    """Return how many segments from the start are the very same: those of a turn, as a rule."""
    same = list(map(is_, ours, theirs))
    return same.index(False) if False in same else len(same)


def _part(ours: tuple[Segment, ...], theirs: tuple[Segment, ...]) -> Part:
    """Return the part that the first of two rests is in, or of the one that has more of it."""
    if not ours or not theirs:
        return (ours or theirs)[0].part if ours or theirs else Part.MESSAGES
    was, now = ours[0].part, theirs[0].part
    # The later prompt has gone on to a part that is still to come in the earlier one.
    return was if any(segment.part is now for segment in ours) else now


def extends(before: Prompt, after: Prompt) -> bool:
    """Whether ``after`` is ``before`` and more: a turn that loses nothing."""
    return before.model == after.model and parting(before, after).was is None
