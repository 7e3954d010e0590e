"""The first difference of two prompts, and the kinship of a request with earlier ones.

Kinship is measured by system text and common messages. Both requests are compared as the rules have
left them, before pins put values back, and without the fields that rules pin, which change from
turn to turn in one conversation; so does the spelling of calls, which does not count either.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, dropwhile, islice
from operator import attrgetter
from typing import NamedTuple

from cacheproxy.core.conversation.plan import NO_PINS, Pins
from cacheproxy.core.dialects.answer import said_in
from cacheproxy.core.dialects.content import Part, Segment, is_mark
from cacheproxy.core.diff.kind import ChangeKind, token_at
from cacheproxy.core.diff.text import common_chars, common_lines, share_of_words
from cacheproxy.core.document.compare import common_prefix, means_same
from cacheproxy.core.document.search import SlowPatternError
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Once, Request, messages_of
from cacheproxy.core.prompt.segments import Piece, is_same_call, unlike

_SEGMENTS, _CHARS, _TEXT, _PART = map(attrgetter, ("segments", "chars", "text", "part"))
_IS_ANSWER = attrgetter("is_answer")
_SAID = attrgetter("role", "text")
_MOST_BY_WORDS = 1 << 20
"""Characters to compare word by word, at most: 20 MB took seven seconds."""
_TELLING = 20
"""Characters at least of a text that, found again, proves an insertion or an omission."""
_SAME = 0.5
"""Share of common words from which a message is the same one, changed in part."""


class Parting(NamedTuple):
    """The first place where a prompt differs from the one before it in its session."""

    shared: int  #: characters equal from the start, in template order
    was: Segment | None  #: segment of the earlier prompt that differs, None at its end
    now: Segment | None  #: segment of the later prompt that differs, None at its end
    was_at: int  #: place of the difference in ``was``, in characters
    now_at: int  #: place of the difference in ``now``, in characters
    part: Part = Part.MESSAGES
    """Part of the prompt that changed, after which the break is named; if a part has lost its last
    segment, that part, not the one that follows sooner."""

    @property
    def path(self) -> str:
        """JSON pointer of the value that differs, in the later request if it is there."""
        segment = self.was if self.has_ended else self.now or self.was
        return segment.path if segment is not None else ""

    @property
    def has_ended(self) -> bool:
        """Whether the message of the later prompt ends where that of the earlier one goes on."""
        return not self.now_at and _ends(self.now) and not _ends(self.was)

    @property
    def goes_on(self) -> bool:
        """Whether the message of the later prompt goes on where that of the earlier one ends."""
        return not self.was_at and _ends(self.was) and not _ends(self.now)


def parting(before: Prompt, after: Prompt) -> Parting:
    """Return the first difference of ``after`` from ``before``; linear in the shared text.

    The prompts are compared as texts, however they are cut into segments. Pieces that both have are
    skipped: most often these are all of ``before``.
    """
    ours, theirs = before.pieces, after.pieces
    for same in unlike(ours, theirs):
        if [*map(_TEXT, ours[same].segments)] != [*map(_TEXT, theirs[same].segments)]:
            break
    else:
        same = min(len(ours), len(theirs))
    now = next(right := chain.from_iterable(map(_SEGMENTS, theirs[same:])), None)
    if same == len(ours):
        return Parting(before.chars, None, now, 0, 0, Part.MESSAGES if now is None else now.part)
    rest = ours[same:]
    if same < len(rest):
        shared = sum(map(_CHARS, ours[:same]))
    else:
        shared = before.chars - sum(map(_CHARS, rest))
    was = next(left := chain.from_iterable(map(_SEGMENTS, rest)), None)
    one_before = other_before = None
    at_was = at_now = 0
    while was is not None and now is not None:
        text, other_text = was.text, now.text
        if at_was or at_now:
            length = min(len(text) - at_was, len(other_text) - at_now)
            text, other_text = text[at_was : at_was + length], other_text[at_now : at_now + length]
        equal = len(text) if text == other_text else common_prefix(text, other_text)
        shared, at_was, at_now = shared + equal, at_was + equal, at_now + equal
        if equal < len(text) and equal < len(other_text):
            break
        if at_was == len(was.text):
            one_before, was, at_was = was, next(left, None), 0
        if at_now == len(now.text):
            other_before, now, at_now = now, next(right, None), 0
    # A text that has lost or got a line end differs from the mark of the next message's beginning.
    if at_was and not at_now and other_before is not None and was is not None and is_mark(was):
        shared, now, at_now, at_was = shared - at_was, other_before, _end(other_before, at_was), 0
    elif at_now and not at_was and one_before is not None and now is not None and is_mark(now):
        shared, was, at_was, at_now = shared - at_now, one_before, _end(one_before, at_now), 0
    while now is None and was is not None and not was.text[at_was:]:  # takes nothing away
        was, at_was = next(left, None), 0
    if was is None or now is None:
        segment = was or now
        part = segment.part if segment is not None else Part.MESSAGES
    # The later prompt may have gone on to a part that is still to come in the earlier one.
    elif was.part is now.part or now.part in map(_PART, left):
        part = was.part
    else:
        part = now.part
    return Parting(shared, was, now, at_was, at_now, part)


def _ends(segment: Segment | None) -> bool:
    return segment is None or is_mark(segment)


def _end(segment: Segment, chars: int) -> int:
    return max(0, len(segment.text) - chars)


def taken_back(before: Prompt, left: Parting, after: Prompt) -> int:
    """Return how many characters of ``before`` its client has taken back, or put in other words.

    They are the characters behind the first difference, ``left``, that ``after`` does not have
    anywhere behind it.
    """
    if left.was is None:
        return 0
    ours, theirs = _behind(before, left.was, left.was_at), _behind(after, left.now, left.now_at)
    gone = [text for text, times in ours.items() for _ in range(times - theirs.get(text, 0))]
    new = [text for text, times in theirs.items() for _ in range(times - ours.get(text, 0))]
    size = sum(map(len, gone))
    if size + sum(map(len, new)) > _MOST_BY_WORDS:
        return size - common_lines(gone, new)
    return size - common_chars("\n".join(gone), "\n".join(new))


def _behind(prompt: Prompt, segment: Segment | None, at: int) -> dict[str, int]:
    """Return how often each text of ``prompt`` occurs behind character ``at`` of ``segment``."""
    times: dict[str, int] = {}
    if segment is None:
        return times
    times[segment.text[at:]] = 1
    for piece in reversed(prompt.pieces):
        for one in reversed(piece.segments):
            if one is segment:
                return times
            times[one.text] = times.get(one.text, 0) + 1
    return times


def describe_change(left: Parting, before: Prompt, sent: Prompt) -> ChangeKind:
    """Return the kind of the first difference."""
    was, now = left.was, left.now
    if was is None or now is None:
        return ChangeKind.ADDED if was is None else ChangeKind.REMOVED
    if _goes_along(was, now, before, sent):
        return ChangeKind.MOVED
    if left.has_ended or left.goes_on:
        return ChangeKind.REMOVED if left.has_ended else ChangeKind.ADDED
    if was.part is now.part is Part.TOOLS and _same_tools(was, now, before, sent):
        return ChangeKind.REORDERED
    put_in = _stands_behind((was, before), (now, sent))
    if put_in is not _stands_behind((now, sent), (was, before)):
        return ChangeKind.ADDED if put_in else ChangeKind.REMOVED
    token = token_at(was.text, now.text, left.was_at, left.now_at)
    if token is not None:
        return token.kind
    if was.part is not now.part:
        return ChangeKind.REMOVED if left.part is was.part else ChangeKind.ADDED
    if was.path != now.path:
        return ChangeKind.MOVED
    ours, theirs = was.text[left.was_at :], now.text[left.now_at :]
    if ours.endswith(theirs) or theirs.endswith(ours):
        return ChangeKind.REMOVED if ours.endswith(theirs) else ChangeKind.ADDED
    return ChangeKind.TEXT


def _same_tools(was: Segment, now: Segment, before: Prompt, sent: Prompt) -> bool:
    """Whether the tools of both are the same in another order, or ``was`` is only respelt."""
    ours, theirs = (sorted(tool.text for tool in one.of(Part.TOOLS)) for one in (before, sent))
    return ours == theirs or means_same(was.text, now.text)


def _stands_behind(one: tuple[Segment, Prompt], other: tuple[Segment, Prompt]) -> bool:
    """Whether a segment of one prompt, or its message, stands behind that of the other."""
    texts, there = _texts(_message_of(*one).segments), _message_of(*other)
    behind = dropwhile(lambda each: each is not there, other[1].pieces)
    if sum(map(len, texts)) >= _TELLING and any(
        texts == _texts(each.segments) for each in islice(behind, 1, None)
    ):
        return True
    rest = dropwhile(lambda each: each is not other[0], there.segments)
    return len(one[0].text) >= _TELLING and one[0].text in _texts(islice(rest, 1, None))


def _texts(segments: Iterable[Segment]) -> list[str]:
    return [segment.text for segment in segments if not is_mark(segment)]


def _goes_along(was: Segment, now: Segment, before: Prompt, sent: Prompt) -> bool:
    """Whether ``was`` is of the last message, which is last again, behind new ones."""
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


class Kinship:
    """The comparison of a request, whose prompt is ``prompt``, with others.

    ``pins``: those of the request's client. ``is_named``: whether the client names its session.
    ``has_answers``: whether the request has an answer of the model.
    """

    def __init__(
        self, request: Request, prompt: Prompt, pins: Pins = NO_PINS, *, is_named: bool = True
    ) -> None:
        self.prompt = prompt
        self.pieces = prompt.made.run.pieces
        self.is_named, self.has_answers = is_named, any(map(_IS_ANSWER, self.pieces))
        self._request = request
        self._pins = pins
        self._known: dict[tuple[str, str], str] = {}

    def system(self) -> int:
        """Return a hash of the whole system text without pinned fields."""
        segments = [segment for piece in self.prompt.head for segment in piece.segments]
        return hash(tuple([self._lasting(one.path, one.text) for one in segments]))

    def has_system_of(self, other: Prompt) -> bool:
        """Whether the whole system text equals that of ``other``, but for pinned fields."""
        ours, theirs = self.prompt.head, other.head
        same = len(ours) == len(theirs)
        return same and (ours == theirs or all(map(self._is_alike, ours, theirs)))

    def shared(self, other: Prompt) -> int:
        """Return how many leading messages equal those of ``other``, but for pinned fields."""
        ours, theirs = self.pieces, other.made.run.pieces
        for number in unlike(ours, theirs):
            if not self._is_alike(ours[number], theirs[number]):
                return number
        return min(len(ours), len(theirs))

    def answers(self, start: int = 0, end: int | None = None) -> int:
        """Return the number of the model's answers that begin in messages ``start`` to ``end``."""
        begun = self._begun
        last = len(begun) if end is None else bisect_left(begun, end)
        return max(0, last - bisect_left(begun, start))

    @Once
    def _begun(self) -> list[int]:
        return self.answers_from(0)

    def answers_from(self, start: int) -> list[int]:
        """Return the indexes of messages from ``start`` on that begin an answer.

        A message at ``start`` in the middle of an answer counts as a beginning.
        """
        pieces = self.pieces
        return [
            number
            for number in range(start, len(pieces))
            if pieces[number].is_answer and (number == start or not pieces[number - 1].is_answer)
        ]

    def said(self, start: int) -> int:
        """Return the hash of the answer whose messages begin at ``start`` (``answer.said``)."""
        _, messages = messages_of(self._request)
        ends = (at for at in range(start, len(self.pieces)) if not self.pieces[at].is_answer)
        return said_in(messages[start : next(ends, None)])

    def answered(self, end: int) -> int:
        """Return the number of messages up to the end of the last answer before message ``end``."""
        end = min(end, len(self.pieces))
        while end and not self.pieces[end - 1].is_answer:
            end -= 1
        return end

    def has_answers_of(self, other: Prompt) -> bool:
        """Whether the request begins with all answers of ``other``, which has at least one."""
        ours = [list(map(_SAID, one.segments)) for one in self.pieces if one.is_answer]
        theirs = [list(map(_SAID, one.segments)) for one in other.made.run.pieces if one.is_answer]
        return bool(theirs) and ours[: len(theirs)] == theirs

    def _is_alike(self, one: Piece, other: Piece) -> bool:
        ours, theirs = one.segments, other.segments
        if len(ours) != len(theirs):
            return False
        for our, their in zip(ours, theirs, strict=True):
            if our == their:
                continue
            if our.role != their.role:
                return False
            path, text = our.path, our.text
            if our.source == "model" and text.startswith("{") and is_same_call(our, their):
                continue
            if self._lasting(path, text) != self._lasting(path, their.text):
                return False
        return True

    def _lasting(self, pointer: str, text: str) -> str:
        """Return ``text`` at ``pointer`` without the values that rules pin there."""
        rules, literals = self._pins
        # A rule's literals, which the body must have, are usually in the pinned field.
        if literals is not None and not any(map(text.__contains__, literals)):
            return text
        known = self._known.get((pointer, text))
        if known is None:
            known = text
            for pin in rules:
                if not pin.literals or any(map(text.__contains__, pin.literals)):
                    with suppress(SlowPatternError):  # reported when the rule edits
                        known = pin.lasting(self._request, pointer, known)
            self._known[pointer, text] = known
        return known


def has_same_start(one: Prompt, other: Prompt, messages: int) -> bool:
    """Whether two prompts have an equal system text, and as many equal leading ``messages``."""
    ours = (*one.head, *one.made.run.pieces[:messages])
    theirs = (*other.head, *other.made.run.pieces[:messages])
    if len(ours) != len(theirs):
        return False
    for at in unlike(ours, theirs):
        if list(map(_SAID, ours[at].segments)) != list(map(_SAID, theirs[at].segments)):
            return False
    return True
