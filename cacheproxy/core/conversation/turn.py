"""The turn that a request is compared with, and the source of values to be put back into it.

``history.py`` finds the source. If it does, the request is compared with the lane of that history,
too. Otherwise it is compared with the most similar lane, within one owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship, has_same_start
from cacheproxy.core.conversation.history import NOTHING, Source
from cacheproxy.core.conversation.lanes import Lane, find_lane, is_another
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request

_SEGMENTS, _SOURCE = attrgetter("segments"), attrgetter("source")


class Turn(NamedTuple):
    """The place of a request, before it is sent."""

    session: Session  #: session of the request
    kin: Kinship | None = None  #: comparison with others, None if its prompt cannot be read
    prompt: Prompt | None = None  #: prompt after pins
    lane: Lane | None = None  #: lane that it is compared with, None for a new one
    replaced: bool = False  #: see ``Place``
    root: Session | None = None  #: session that its own works for
    restores: bool = False  #: whether rules may put values back, now or in the next turn
    source: Source = NOTHING  #: source of values that may be put back
    number: int = 0  #: number in its session, from 1; 0 before ``Store.begin``

    @property
    def previous(self) -> Request | None:
        """Request whose values may be put back, as the rules left it."""
        history = self.source.history
        return None if history is None else history.request


def unnamed(kin: Kinship, known: Mapping[Session, Sequence[Lane]]) -> Turn:
    """Return the turn of a request in the most similar of the conversations that begin alike.

    If it is like none of them, it begins a new one. ``known``: their lanes, the latest last.
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
    """Return a rank for a request as the next of ``lane``, None if it cannot be.

    It can if it has all of the lane and at most one answer more, or branches off behind an answer.
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
    """Return the most likely turn of a request whose API has no separate messages, None if none."""
    for session, lanes in reversed(list(known.items())):
        lane, replaced = find_lane(lanes, kin)
        if lane is not None and not is_another(lane, kin.prompt):
            return Turn(session, kin, kin.prompt, lane, replaced)
    return None


def was_elsewhere(turn: Turn) -> bool:
    """Whether a request between ``turn`` and the one before it here must have gone elsewhere.

    It must if the model has answered twice since, with other words between the answers.
    """
    if turn.lane is None or turn.prompt is None or turn.replaced:
        return False
    known, pieces = turn.lane.prompt.pieces, turn.prompt.pieces
    new = pieces[len(known) :]
    if not new:
        return False
    sources = map(_SOURCE, chain.from_iterable(map(_SEGMENTS, new)))
    writers = [*map(itemgetter(0), groupby(filter("client".__ne__, sources)))]
    # Otherwise the client has rewritten its history.
    return writers.count("model") > 1 and pieces[: len(known)] == known
