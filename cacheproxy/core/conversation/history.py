"""Histories: the earlier requests whose values may be put back into a new one.

To compare a turn with another, likeness is enough (``turn.py``). To put a value back takes
equality: the system text and all messages up to there are the same, but for the fields that rules
pin. In a session named by its client, an answer that was not seen here is no obstacle. If the
client names none, each answer must have been relayed here, since two people may begin alike. If
several histories fit, nothing is put back, unless all of them would put back the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter, is_not, itemgetter
from typing import NamedTuple

import msgspec

from cacheproxy.core.conversation.divergence import Kinship, has_same_start
from cacheproxy.core.conversation.hearing import Heard
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request

_PLAIN, _IS_ANSWER = attrgetter("plain"), attrgetter("is_answer")
_MOST, _MOST_ALIKE = 32, 256
"""Histories of one session, and of all that begin alike, at most."""


class History(msgspec.Struct, eq=False):
    """One request as it was sent, with its answers: a later request may go on with it."""

    session: Session  #: conversation of the request
    lane: int  #: number of its lane there
    request: Request  #: request as sent, after rules and pins
    prompt: Prompt  #: prompt of ``request``
    plain: Prompt  #: prompt before pins put values back
    length: int  #: number of messages
    first: int = 0
    """Number of messages of the oldest request that this one goes on with, in a named session up to
    its last answer. A request with fewer of them is not known here: it may be of another branch."""
    answers: set[int] | None = None
    """Hashes of the answers (``answer.said``); None: any answer in a later request is accepted, as
    in a session that its client names."""
    has_unread: bool = False  #: whether an answer could not be read, or was cut off
    is_answered: bool = False  #: whether the client got a whole answer, as far as is known

    def has_answered(self, said: int) -> bool:
        """Whether the answer with the hash ``said`` was given, or any is accepted."""
        return self.answers is None or said in self.answers

    def hear(self, heard: Heard) -> None:
        """Add an answer."""
        if heard.said is not None and self.answers is not None:
            self.answers.add(heard.said)
        if not heard.is_whole:
            self.has_unread = True


class Fit(NamedTuple):
    """A history that a request may go on with."""

    history: History  #: the history
    shared: int  #: number of leading messages in common
    is_whole: bool  #: whether the request has all of the history
    is_sure: bool = True  #: False: the request has an answer that may not have been relayed here

    def is_equal(self, kin: Kinship) -> bool:
        """Whether the client sends the common part exactly as then, pinned fields included."""
        return has_same_start(kin.prompt, self.history.plain, self.shared)

    def puts_nothing(self, kin: Kinship) -> bool:
        """Whether no value would change: the client sends the same, and no value was pinned."""
        return self.history.plain is self.history.prompt and self.is_equal(kin)

    def agrees(self, other: Fit) -> bool:
        """Whether both would put back the same values in the messages that both share."""
        shared = min(self.shared, other.shared)
        return has_same_start(self.history.prompt, other.history.prompt, shared)


class Source(NamedTuple):
    """The source of values that may be put back into a request."""

    history: History | None = None  #: history with the values, None for no values
    shared: int = 0
    """Number of leading messages that may get values; below 0: all or none (``is_tried``)."""
    goes_on: bool = False  #: whether the request goes on with the whole history, or repeats it
    is_again: bool = False  #: whether the request is a repetition, but for its pinned fields
    is_tried: bool = False
    """Whether all values are put back on trial: they stay if the whole history is there then."""
    rivals: int = 0  #: number of fitting histories that would put back different values
    is_unseen: bool = False  #: whether an answer in the request was never relayed here


NOTHING = Source()


class Histories:
    """The histories of one session, or of all unnamed sessions that begin alike.

    All are forgotten together: without one of two that look alike, the other would seem to be the
    only one that fits.
    """

    def __init__(self) -> None:
        self.known: list[History] = []  #: histories, the latest last; replaced, never altered
        self.has_forgotten = False  #: whether there were more than can be stored

    def cost(self, lanes: Iterable[Request]) -> int:
        """Return the bytes of all histories beside the last requests of ``lanes``, roughly."""
        held, cost = set(map(id, lanes)), 0
        for one in self.known:
            if id(one.request) not in held:
                cost += 1500 + len(one.request.body)  # bytes of a history beside its request
        return cost

    def forget(self, lane: int) -> None:
        """Forget the histories of a session's ``lane``."""
        self.known = [one for one in self.known if one.lane != lane]

    def source(self, kin: Kinship) -> Source:
        """Return the source of values for the request of ``kin``."""
        known, is_named = self.known, kin.is_named
        if not known:
            return Source(is_unseen=not is_named and kin.has_answers)
        if not is_named and not kin.has_answers:
            return NOTHING  # a new conversation
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
        if shared:  # values behind the last answer may be out of date
            shared = kin.answered(shared)
        return Source(history, shared, is_again=is_whole, is_tried=is_tried)

    def begin(self, source: Source, history: History, kin: Kinship) -> History:
        """Add the ``history`` of a request that goes upstream; return it, or the equal one known.

        ``source``: source of the values put back into the request.
        """
        known, before = self.known, source.history
        is_named = kin.is_named
        if before is not None and (source.goes_on or source.shared > 0):
            history.first = before.first
        else:
            history.first = kin.answered(history.length) if is_named else history.length
        if before is None or source.goes_on:
            for one in known:
                if one.length == history.length and _is_sent_as(one, history, kin):
                    one.session, one.lane = history.session, history.lane
                    return one
        is_over = source.goes_on or (is_named and before is not None and _is_over(before, source))
        if is_over:
            known = [*filter(partial(is_not, before), known)]
        # The list is replaced, since a thread may be reading the old one.
        most = _MOST if is_named else _MOST_ALIKE
        self.has_forgotten |= len(known) >= most
        self.known = [*known, history] if len(known) < most else []
        return history


def _is_over(before: History, source: Source) -> bool:
    """Whether ``before`` is unlikely to be gone on with, since its session has another request.

    That request repeats it, which had no answer; or it differs behind the last answer that both
    have. If they have none in common, it may be a conversation of its own.
    """
    if source.is_again:
        return not before.is_answered
    pieces = before.plain.made.run.pieces
    return source.shared > 0 and not any(map(_IS_ANSWER, pieces[source.shared :]))


def _is_sent_as(one: History, other: History, kin: Kinship) -> bool:
    """Whether the request of ``other`` equals that of ``one``, both as it came and as sent."""
    came = has_same_start(kin.prompt, one.plain, other.length)
    return came and has_same_start(one.prompt, other.prompt, other.length)


def _in_session(kin: Kinship, known: Sequence[History], *, has_begun: bool) -> list[Fit]:
    """Return the histories of a named session that its request may go on with.

    These are the histories that it has as a whole, and those with which it shares most messages. If
    it shares none with any, as after a compaction, all with its system text fit; ``has_begun``
    rules that out, because it may begin as one that was forgotten.
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
    """Return the histories that a request without a named session may go on with.

    All answers in it were relayed here, in such a history.
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
    """Return the one of several histories that a session's request goes on with, None if unsure."""
    fits = [one for one in fits if one.is_equal(kin)] or fits
    best = max(reversed(fits), key=attrgetter("shared"))
    if best.is_equal(kin) or all(map(best.agrees, fits)):
        return best
    return None


def _only_one(kin: Kinship, fits: list[Fit]) -> Fit | None:
    """Return the history that a request without a session goes on with, None if unsure."""
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

    Then values may be put back on trial, since some rules put back whole texts. If the client names
    no session, there may be one more answer behind them, which must have been relayed here.
    """
    if not kin.has_system_of(history.plain) or not kin.has_answers_of(history.plain):
        return False
    if kin.is_named:
        return True
    answers = sum(map(_IS_ANSWER, history.plain.made.run.pieces))
    behind = [at for at, piece in enumerate(kin.pieces) if piece.is_answer][answers:]
    more = kin.answers_from(behind[0]) if behind else []
    return not more or (len(more) == 1 and history.has_answered(kin.said(more[0])))
