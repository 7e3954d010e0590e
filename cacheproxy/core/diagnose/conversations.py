"""Captured requests, sorted into conversations: a session's turns and its side requests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cacheproxy.core.conversation.conversation import Conversation
from cacheproxy.core.conversation.lanes import Place, alike_systems, share_of, system_of
from cacheproxy.core.conversation.session import DOCTOR, Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.prompt.client import NOBODY, Clients
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One captured request of a conversation."""

    index: int  #: its number among all records, from 0
    record: Exchange  #: the captured exchange
    request: Request  #: the request as received
    prompt: Prompt  #: its prompt
    place: Place  #: its place in the conversation


@dataclass(frozen=True, slots=True)
class RecordedLane:
    """A lane: captured requests, each of which extends the one before."""

    session: Session  #: session of the requests
    turns: tuple[RecordedTurn, ...]  #: the requests, in their order
    is_side: bool  #: whether they are side requests
    parent: Session | None = None  #: session of the conversation that side requests belong to


def lanes_of(
    records: Sequence[Exchange],
    session: Callable[[Request], Session] = session_of,
    clients: Clients = NOBODY,
    *,
    answered: bool = False,
) -> list[RecordedLane]:
    """Return the lanes of all conversations, in the order of their first requests.

    ``session``: returns a request's session (see ``Packages.session``); ``clients``: the known
    clients. Requests without a prompt belong to no lane, nor do those of our own doctor, nor failed
    ones if ``answered`` is set.
    """
    store = Store(sys.maxsize)
    sessions: dict[Session, _Session] = {}
    for index, record in enumerate(records):
        request = clients.introduce(record.received)
        if (answered and record.has_failed) or not endpoint_of(request.path).purpose.evaluates:
            continue
        turn = store.find(record.session or session(request), request)
        prompt = turn.prompt
        if prompt is None or is_doctors(record):
            continue
        known = sessions.get(turn.session) or _resumed(turn, sessions.values())
        if known is not None and known.session != turn.session:
            turn = store.find(known.session, request)
        place = store.end(turn.session, store.begin(turn, request), None)
        conversation = store.conversation(turn.session)
        assert conversation is not None
        known = known or _Session(turn.session, conversation)
        sessions[turn.session] = known
        known.turns.append(RecordedTurn(index, record, request, prompt, place))
    unique = list(dict.fromkeys(sessions.values()))
    lanes = [lane for session in unique for lane in session.lanes(_parent(session, unique))]
    return sorted(lanes, key=lambda lane: lane.turns[0].index)


def is_doctors(record: Exchange) -> bool:
    """Whether our own doctor sent the request; newer ones are marked, and never captured."""
    return record.client == DOCTOR


@dataclass(eq=False, slots=True)
class _Session:
    """The records of one session."""

    session: Session  #: the session
    known: Conversation  #: its conversation in the store
    turns: list[RecordedTurn] = field(default_factory=list)  #: its turns so far

    @property
    def main(self) -> list[RecordedTurn]:
        return [turn for turn in self.turns if turn.place.lane == self.known.main]

    def lanes(self, parent: Session | None) -> Iterator[RecordedLane]:
        for number in sorted({turn.place.lane for turn in self.turns}):
            turns = tuple(turn for turn in self.turns if turn.place.lane == number)
            lane = self.known.lane(number)
            is_beside = number != self.known.main if lane is None else self.known.is_beside(lane)
            beside = self.session if is_beside else None
            owner = parent or beside
            yield RecordedLane(self.session, turns, owner is not None, owner)


def _resumed(turn: Turn, known: Iterable[_Session]) -> _Session | None:
    """Return the session that a turn continues although its first message has changed, or None."""
    if turn.session.is_named or turn.prompt is None:
        return None
    candidates = [
        other
        for other in known
        if not other.session.is_named
        and other.session.client == turn.session.client
        and share_of(other.known.lanes, turn.prompt) >= _HALF
    ]
    return candidates[-1] if candidates else None


def _parent(one: _Session, others: Sequence[_Session]) -> Session | None:
    """Return the session that ``one`` works for: named by the client, or enclosing its turns."""
    for other in others:
        if other is one or other.session.client != one.session.client:
            continue
        if other.session == one.known.root:
            return other.session
        first, last = one.turns[0].index, one.turns[-1].index
        is_within = other.main[0].index < first and last < other.main[-1].index
        if not one.session.is_named and is_within and not _is_same_agent(one, other):
            return other.session
    return None


def _is_same_agent(one: _Session, other: _Session) -> bool:
    """Whether two sessions have the same tools and much the same system text."""
    ours, theirs = one.main[0].prompt, other.main[0].prompt
    same_tools = ours.tools == theirs.tools
    return same_tools and alike_systems(system_of(ours), system_of(theirs))
