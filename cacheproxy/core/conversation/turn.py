"""Which turn a request is compared with, and whose values may be put back into it.

Whose values it may get is told by ``history.py``, and where that knows, it is compared with the
lane of that history, too. Where it does not, what it is compared with is a likeness, within one
owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship, has_same_start
from cacheproxy.core.conversation.history import NOTHING, Source
from cacheproxy.core.conversation.lanes import Lane, find_lane, is_another
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request


class Turn(NamedTuple):
    """Where a request belongs, before it is sent."""

    session: Session  #: whose it is
    kin: Kinship | None = None  #: tells it apart; None where it has no prompt that we can read
    prompt: Prompt | None = None  #: as pins left it
    lane: Lane | None = None  #: the one it is compared with; None for a new one
    replaced: bool = False  #: see ``Place``
    root: Session | None = None  #: the session that it works for
    restores: bool = False  #: its rules may put values back, now or in the next turn
    source: Source = NOTHING  #: what may be put back into it

    @property
    def previous(self) -> Request | None:
        """The request whose values may be put back, as the rules left it."""
        history = self.source.history
        return None if history is None else history.request

    @property
    def shared(self) -> int:
        """How many messages may get values back."""
        return self.source.shared

    @property
    def with_same_tools(self) -> Request | None:
        """The last request of the lane with the same tools; the one before if there is none."""
        if self.lane is None or self.prompt is None:
            return None
        return self.lane.others.get(self.prompt.tools, self.lane.request)


def unnamed(kin: Kinship, known: Mapping[Session, Sequence[Lane]]) -> Turn:
    """Return with which of the conversations that begin alike a request is compared.

    By likeness; with none of them, it begins a new one. ``known``: their lanes, the latest last.
    """
    last = list(known)[-1]
    number = int(last.id.partition("-")[2] or 1) + 1
    begun = Turn(last.numbered(number), kin, kin.prompt)
    if not kin.pieces:
        return _nearest(kin, known) or begun
    if not kin.has_answers:
        return begun
    each = [(session, lane) for session, lanes in known.items() for lane in lanes]
    ways = [(rank, *one) for one in each if (rank := _rank(kin, one[1])) is not None]
    if ways:
        _, session, lane = max(reversed(ways), key=itemgetter(0))
        return Turn(session, kin, kin.prompt, lane)
    akin = [one for one in each if not is_another(one[1], kin.prompt)]
    near = [one for one in akin if find_lane((one[1],), kin)[0] is not None]
    if not near:
        return begun._replace(session=akin[-1][0]) if akin else begun
    shares = [kin.shared(lane.plain) for _, lane in near]
    ranks = [(kin.answers(end=shared), shared) for shared in shares]
    if ranks.count(max(ranks)) > 1:
        return begun
    session, lane = near[ranks.index(max(ranks))]
    return Turn(session, kin, kin.prompt, lane)


def _rank(kin: Kinship, lane: Lane) -> tuple[int, ...] | None:
    """Return how much a request is like the next of ``lane``, None where it is not.

    It has all of it and one answer more, or branches off behind an answer.
    """
    shared = kin.shared(lane.plain)
    is_whole = shared == len(lane.plain.made.run.pieces)
    answers = kin.answers(end=shared)
    if not shared or not (is_whole or answers):
        return None
    if not kin.has_system_of(lane.plain):
        return None
    is_next = kin.answers(shared) <= is_whole
    return (is_next, answers, has_same_start(kin.prompt, lane.plain, shared), shared)


def _nearest(kin: Kinship, known: Mapping[Session, Sequence[Lane]]) -> Turn | None:
    """Return where a request is most like to belong whose API does not tell its messages apart."""
    for session, lanes in reversed(list(known.items())):
        lane, replaced = find_lane(lanes, kin)
        if lane is not None and not is_another(lane, kin.prompt):
            return Turn(session, kin, kin.prompt, lane, replaced)
    return None


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
