"""Which conversation a request goes on with, and what of it may be put back.

What a client marks as one session is one; what it does not name is told by the answers in it. Two
that nothing tells apart share nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.lanes import Lane, find_lane, is_another
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request


class Turn(NamedTuple):
    """Where a request belongs, before it is sent."""

    session: Session  #: whose it is
    kin: Kinship | None = None  #: tells it apart; None where it has no prompt that we can read
    prompt: Prompt | None = None  #: as pins left it
    lane: Lane | None = None  #: the one it goes on with; None for a new one
    replaced: bool = False  #: see ``Place``
    root: Session | None = None  #: the session that it works for
    source: Lane | None = None
    """The lane whose values may be put back, since it is this conversation's beyond doubt; None for
    none."""
    shared: int = 0
    """With how many messages of the source's last request this one begins; below 0 where the whole
    must be there."""
    is_tried: bool = False
    """Whether the whole may be there once all values are back: if so, all of them stay."""
    rivals: int = 0
    """How many conversations it may go on with, where nothing tells which: then it begins a new
    one."""

    @property
    def previous(self) -> Request | None:
        """The request whose values may be put back, as the rules left it."""
        return self.source.request if self.source is not None else None

    @property
    def with_same_tools(self) -> Request | None:
        """The last request of the lane with the same tools; the one before if there is none."""
        if self.lane is None or self.prompt is None:
            return None
        return self.lane.others.get(self.prompt.made.tool_piece.names, self.lane.request)


def named(
    kin: Kinship, session: Session, lanes: Sequence[Lane], root: Session | None = None
) -> Turn:
    """Return where a request belongs in a ``session`` that has these ``lanes``.

    ``root``: whom the session works for.
    """
    lane, replaced = find_lane(lanes, kin)
    source = lane if lane is not None and kin.has_system_of(lane.plain) else None
    if source is None:  # as after a compaction
        source = next(filter(lambda one: kin.has_system_of(one.plain), reversed(lanes)), None)
    if source is None:
        return Turn(session, kin, kin.prompt, lane, replaced, root)
    shared = kin.shared(source.plain)
    if shared == len(kin.pieces) and not kin.is_equal(source.plain, shared):
        shared = kin.answered(shared)  # what was told behind it is not so any more
    tried = _is_tried(kin, source, shared)
    return Turn(session, kin, kin.prompt, lane, replaced, root, source, shared, tried)


def choose_turn(kin: Kinship, known: Mapping[Session, Sequence[Lane]]) -> Turn:
    """Return which of the conversations that begin alike a request goes on with, and where.

    With none of them, a new one: so it is, too, where several may be meant, unless each would
    put back the same, or one nothing. ``known``: their lanes, the latest last.
    """
    last = list(known)[-1]
    number = int(last.id.partition("-")[2] or 1) + 1
    begun, alone = Turn(last.numbered(number), kin, kin.prompt), len(known) == 1
    if not kin.pieces:
        return _nearest(kin, known) or begun
    if not kin.has_answers():
        return begun
    own: list[Turn] = []
    forks: list[Turn] = []
    rest: list[tuple[Turn, bool]] = []
    for session, lanes in known.items():
        for lane in lanes:
            shared = kin.shared(lane.plain)
            found = Turn(session, kin, kin.prompt, lane, source=lane, shared=shared)
            way = _way(kin, shared, lane)
            if way in (None, _Way.UNSEEN) or not kin.has_system_of(lane.plain):
                rest.append((found, way is _Way.UNSEEN))
            elif _is_its_own(kin, way, found, alone=alone):
                own.append(found)
            else:  # what was told behind the last answer may be another's
                forks.append(found._replace(shared=kin.answered(shared)))
    if forks and alone:
        own = own or [one for one in forks if one.shared]
    elif forks and max(one.shared for one in forks) > max((one.shared for one in own), default=0):
        return begun._replace(rivals=len(forks) + len(own))
    if not own:  # system texts are compared where they have to be: there may be many, and long
        own = [
            one for one, unseen in rest if unseen and one.lane and kin.has_system_of(one.lane.plain)
        ]
    if len(own) > 1:
        same = [one for one in own if _puts_nothing(kin, one)]
        if not same and len({one.previous.body for one in own if one.previous}) > 1:
            return begun._replace(rivals=len(own))
        own = [max(reversed(same or own), key=lambda one: one.shared)]
    if own:
        return _tried(own[0], kin)
    akin = [one for one, _ in rest if one.lane and not is_another(one.lane, kin.prompt)]
    beside = next((one.session for one in reversed(akin)), begun.session)
    akin = [one for one in akin if one.lane and find_lane((one.lane,), kin)[0] is not None]
    near = [(kin.answers(end=one.shared), one.shared) for one in akin]
    if not near or near.count(max(near)) > 1:
        return begun._replace(session=beside) if not near else begun
    nearest = _tried(akin[near.index(max(near))], kin)
    # What is not tried is compared with, and no more.
    return nearest._replace(shared=-1, source=nearest.source if nearest.is_tried else None)


def _nearest(kin: Kinship, known: Mapping[Session, Sequence[Lane]]) -> Turn | None:
    """Return where a request is most like to belong whose API does not tell its messages apart."""
    for session, lanes in reversed(list(known.items())):
        lane, replaced = find_lane(lanes, kin)
        if lane is not None and not is_another(lane, kin.prompt):
            return Turn(session, kin, kin.prompt, lane, replaced)
    return None


class _Way(Enum):
    """How a request may go on with another: as the next, the same, or with unseen turns between."""

    NEXT = "next"
    AGAIN = "again"
    UNSEEN = "unseen"


def _way(kin: Kinship, shared: int, lane: Lane) -> _Way | None:
    """Return how a request may go on with ``lane``, with which it shares so many messages.

    It is the next, if it has all of it and one answer more; or branches off behind an answer, of
    a turn that the lane has gone on from.
    """
    is_whole, more = _has_all(lane, shared), kin.answers(shared)
    if not shared or not (is_whole or (kin.answers(end=shared) and shared >= lane.first)):
        return None
    if is_whole and shared == len(kin.pieces):
        return _Way.AGAIN
    return _Way.NEXT if more <= is_whole else _Way.UNSEEN


def _is_its_own(kin: Kinship, way: _Way, turn: Turn, *, alone: bool) -> bool:
    """Whether a request goes on with that very lane, and is no fork of it.

    With other values in its fields it may be a fork's: where it has not all of the lane, where it
    says the same as a request that was answered, and, unless the lane is ``alone``, where it has an
    answer that the lane has not had yet.
    """
    lane = turn.source
    if lane is None or _puts_nothing(kin, turn):
        return True
    is_next = way is _Way.NEXT and _has_all(lane, turn.shared)
    if is_next and (alone or lane.is_answered):
        return True
    is_open = way is _Way.NEXT or not lane.is_answered
    return is_open and kin.is_equal(lane.plain, turn.shared)


def _has_all(lane: Lane, shared: int) -> bool:
    return shared == len(lane.plain.made.run.pieces)


def _is_tried(kin: Kinship, source: Lane, shared: int) -> bool:
    """Whether a request is tried if its messages are respelled: it has all answers of its source.

    Some rules put back whole texts, which are known to be missing only then.
    """
    if shared >= len(source.plain.made.run.pieces):
        return False
    return kin.has_answers(shared) and kin.has_answers_of(source.plain)


def _tried(turn: Turn, kin: Kinship) -> Turn:
    source = turn.source
    is_tried = source is not None and _is_tried(kin, source, turn.shared)
    return turn._replace(is_tried=True) if is_tried else turn


def _puts_nothing(kin: Kinship, turn: Turn) -> bool:
    """Whether nothing would be put back from where ``turn`` goes on: it says the very same."""
    lane = turn.source
    if lane is None or lane.plain is not lane.prompt:
        return False
    return kin.is_equal(lane.plain, turn.shared)


def was_elsewhere(turn: Turn) -> bool:
    """Whether somebody else must have had a request between ``turn`` and the one before it here.

    The model has spoken twice since, and was answered between: another proxy asked it, or nobody.
    """
    if turn.lane is None or turn.prompt is None or turn.replaced:
        return False
    known, pieces = turn.lane.prompt.pieces, turn.prompt.pieces
    times, last = 0, ""
    for piece in pieces[len(known) :]:
        for segment in piece.segments:
            if segment.source not in ("client", last):
                last = segment.source
                times += last == "model"
    # Else the client tells its story in another way.
    return times > 1 and pieces[: len(known)] == known
