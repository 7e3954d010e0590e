"""Histories: whose values may be put back into a request.

What a turn is compared with is a likeness (``turn.py``). What is put back into one needs equality:
the system text and all messages up to there are the same, without the fields that rules pin. In a
session that its client names, an answer that was not seen here is passed over. Where the client
names none, each answer has to be one that was relayed; two people may begin alike. Where several
histories fit, nothing is put back, unless all of them would put back the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, is_not, itemgetter
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship, has_same_start
from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request

_PLAIN, _IS_ANSWER = attrgetter("plain"), attrgetter("is_answer")
_MOST, _MOST_ALIKE = 32, 256
"""Histories of one session, and of all that begin alike."""
_EACH = 1500
"""Bytes that one takes beside its request."""


@dataclass(eq=False, slots=True)
class History:
    """One request as it was sent, and what was answered: another one may go on with it."""

    session: Session  #: the conversation that it is of
    lane: int  #: the number of its lane there
    request: Request  #: as rules and pins left it
    prompt: Prompt  #: what that says
    plain: Prompt  #: the same before pins had put anything back
    length: int  #: how many messages it has
    first: int = 0
    """How many the first request had that all since have begun with, in a named session up to its
    last answer: what was said at fewer of them is not known, and another one may have branched off
    there."""
    answers: set[int] | None = None
    """The numbers of what was answered; None: whatever comes back is taken for that, as in a
    session that its client names."""
    has_unread: bool = False  #: one of its answers could not be read, or was cut off
    is_answered: bool = False  #: whether its client got a whole answer, as far as is known

    def has_answered(self, said: int) -> bool:
        """Whether that was answered."""
        return self.answers is None or said in self.answers

    def hear(self, heard: Heard) -> None:
        """Take note of what was answered."""
        if heard.said is not None and self.answers is not None:
            self.answers.add(heard.said)
        if not heard.is_whole:
            self.has_unread = True


class Fit(NamedTuple):
    """A history that a request may go on with."""

    history: History  #: which
    shared: int  #: messages that both begin with
    is_whole: bool  #: all of the history is there
    is_sure: bool = True  #: False: it has an answer of which nobody knows whether it was relayed

    def is_equal(self, kin: Kinship) -> bool:
        """Whether the client says the very same as then, pinned fields included."""
        return has_same_start(kin.prompt, self.history.plain, self.shared)

    def puts_nothing(self, kin: Kinship) -> bool:
        """Whether it would change nothing: the client says the same, and nothing was pinned."""
        return self.history.plain is self.history.prompt and self.is_equal(kin)

    def agrees(self, other: Fit) -> bool:
        """Whether both would put back the same, as far as both are there."""
        shared = min(self.shared, other.shared)
        return has_same_start(self.history.prompt, other.history.prompt, shared)


class Source(NamedTuple):
    """What may be put back into a request."""

    history: History | None = None  #: whose values; None: nobody's
    shared: int = 0
    """The messages that may get some; below 0 where the whole must be there (``is_tried``)."""
    goes_on: bool = False  #: the request goes on with the whole history, or is the same again
    is_again: bool = False  #: it is the same again, but for its pinned fields
    is_tried: bool = False
    """Whether the whole may be there once all values are back: if so, all of them stay."""
    rivals: int = 0  #: how many histories fit that would put back different values
    is_unseen: bool = False  #: an answer in it was never relayed here


NOTHING = Source()


class Histories:
    """The histories of one session, or of those that begin alike and are not named.

    All are forgotten together: without one of two that read alike, the other would seem to be the
    only one that fits.
    """

    def __init__(self) -> None:
        self.known: list[History] = []  #: the latest last; never altered, but replaced
        self.has_forgotten = False  #: more were sent than can be known

    def cost(self, lanes: Iterable[Request]) -> int:
        """Return the bytes that they take beside the last requests of ``lanes``, roughly."""
        held, cost = set(map(id, lanes)), 0
        for one in self.known:
            if id(one.request) not in held:
                cost += _EACH + len(one.request.body)
        return cost

    def forget(self, lane: int) -> None:
        """Forget those of a session's ``lane``."""
        self.known = [one for one in self.known if one.lane != lane]

    def clear(self) -> None:
        """Forget all of them."""
        self.known = []

    def source(self, kin: Kinship) -> Source:
        """Return what may be put back into the request of ``kin``."""
        known, is_named = self.known, kin.is_named
        if not known:
            return Source(is_unseen=not is_named and kin.has_answers)
        if not is_named and not kin.has_answers:
            return NOTHING  # it begins a conversation of its own
        forgot = self.has_forgotten
        fits = _in_session(kin, known, has_begun=forgot) if is_named else _relayed(kin, known)
        if not fits:
            tried = [one for one in known if _may_be_tried(kin, one)]
            return Source(tried[-1], -1, is_tried=True) if tried else Source(is_unseen=not is_named)
        if is_named:
            found = fits[0] if len(fits) == 1 else _named_one(kin, fits)
        else:
            found = _only_one(kin, fits)
        if found is None:
            return Source(rivals=len(fits))
        history, shared, is_whole, _ = found
        if is_whole and len(kin.pieces) > shared:
            return Source(history, shared, goes_on=True)
        has_more = any(map(_IS_ANSWER, kin.pieces[shared:]))
        is_tried = is_named and has_more and kin.has_answers_of(history.plain)
        if has_same_start(kin.prompt, history.plain, shared):
            return Source(history, shared, goes_on=is_whole, is_tried=is_tried)
        if shared:  # what was reported behind the last answer may not be so any more
            shared = kin.answered(shared)
        return Source(history, shared, is_again=is_whole, is_tried=is_tried)

    def begin(self, source: Source, history: History, kin: Kinship) -> History:
        """Take note that a request goes upstream, as ``history`` has it; return its history.

        That is another one's where nothing tells the two apart.
        """
        known, before = self.known, source.history
        is_named = kin.is_named
        history.first = kin.answered(history.length) if is_named else history.length
        if before is not None and (source.goes_on or source.shared > 0):
            history.first = before.first
        if before is None or source.goes_on:
            for one in known:
                if one.length == history.length and _is_sent_as(one, history, kin):
                    one.session, one.lane = history.session, history.lane
                    return one
        is_over = source.goes_on or (is_named and before is not None and _is_over(before, source))
        if is_over:
            known = [*filter(partial(is_not, before), known)]
        # A thread may be looking at the list that there was.
        most = _MOST if is_named else _MOST_ALIKE
        self.has_forgotten |= len(known) >= most
        self.known = [*known, history] if len(known) < most else []
        return history


def _is_over(before: History, source: Source) -> bool:
    """Whether nobody is like to go on with ``before``, since another request came in its session.

    The client says the same again, and had no answer; or it asks something else behind the last
    answer that both have. Where they have none, that may be a conversation of its own.
    """
    if source.is_again:
        return not before.is_answered
    pieces = before.plain.made.run.pieces
    return source.shared > 0 and not any(map(_IS_ANSWER, pieces[source.shared :]))


def _is_sent_as(one: History, other: History, kin: Kinship) -> bool:
    """Whether a request came and goes as that of ``one`` did, as ``other`` has it."""
    came = has_same_start(kin.prompt, one.plain, other.length)
    return came and has_same_start(one.prompt, other.prompt, other.length)


def _in_session(kin: Kinship, known: Sequence[History], *, has_begun: bool) -> list[Fit]:
    """Return which histories of a session its request may go on with.

    Those that are there as a whole, and those with which it shares most. It may share no message
    with any of them, as after a compaction; one that begins as another did is none. ``has_begun``:
    it may begin as one that was forgotten.
    """
    found: list[Fit] = []
    each = zip(map(kin.shared, map(_PLAIN, known)), known, strict=True)
    for shared, one in sorted(each, key=itemgetter(0), reverse=True):
        is_whole = shared == one.length
        if found and shared < found[0].shared and not (is_whole and shared):
            continue
        if (has_begun and not shared) or not kin.has_system_of(one.plain):
            continue
        has_begun = has_begun or shared > 0
        if is_whole or not 0 < shared < one.first:
            found.append(Fit(one, shared, is_whole))
    return found


def _relayed(kin: Kinship, known: Iterable[History]) -> list[Fit]:
    """Return which histories a request without a session may go on with.

    All answers in it were relayed, to whoever had such a history.
    """
    found: list[Fit] = []
    for one in known:
        shared = kin.shared(one.plain)
        is_whole = shared == one.length
        if not (is_whole or shared >= one.first) or not kin.has_system_of(one.plain):
            continue
        more = kin.answers_from(shared)
        if not more:
            found.append(Fit(one, shared, is_whole))
        elif is_whole and more == [shared]:
            if one.has_answered(kin.said(shared)):
                found.append(Fit(one, shared, is_whole))
            elif one.has_unread:
                found.append(Fit(one, shared, is_whole, is_sure=False))
    return found


def _named_one(kin: Kinship, fits: list[Fit]) -> Fit | None:
    """Return which of several histories a session's request goes on with, None for not known."""
    fits = [one for one in fits if one.is_equal(kin)] or fits
    best = max(reversed(fits), key=attrgetter("shared"))
    if best.is_equal(kin) or all(map(best.agrees, fits)):
        return best
    return None


def _only_one(kin: Kinship, fits: list[Fit]) -> Fit | None:
    """Return which history a request without a session goes on with, None where several may be."""
    sure = [one for one in fits if one.is_sure]
    if not sure:
        return None
    if len(fits) > 1:
        same = [one for one in sure if one.puts_nothing(kin)]
        if not same and not all(map(sure[0].agrees, fits)):
            return None
        sure = same or sure
    return max(reversed(sure), key=attrgetter("shared"))


def _may_be_tried(kin: Kinship, history: History) -> bool:
    """Whether a request has all answers of ``history``, though its client respelled messages.

    Some rules put back whole texts, which are known to be missing only then. Of the answers behind
    them there is one at the most, and it was relayed, where the client names no session.
    """
    if not kin.has_system_of(history.plain) or not kin.has_answers_of(history.plain):
        return False
    if kin.is_named:
        return True
    answers = sum(map(_IS_ANSWER, history.plain.made.run.pieces))
    behind = [at for at, piece in enumerate(kin.pieces) if piece.is_answer][answers:]
    more = kin.answers_from(behind[0]) if behind else []
    return not more or (len(more) == 1 and history.has_answered(kin.said(more[0])))
