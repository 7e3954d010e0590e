"""The store of conversations, which finds the turn before a request.

Rules get the previous request from it, verdicts the previous prompt, translation the spelling of
earlier tool calls. ``tap`` makes one store for all of them.
"""

from __future__ import annotations

import sys
from collections import ChainMap, OrderedDict
from collections.abc import Sequence
from threading import Lock

from cacheproxy.core.conversation.conversation import Conversation, Spellings
from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.hearing import NOTHING_HEARD, Heard, Hearing
from cacheproxy.core.conversation.history import NOTHING, Histories, History, Source
from cacheproxy.core.conversation.lanes import Before, Home, Lane, Pair, Place, find_lane
from cacheproxy.core.conversation.plan import NO_PINS, Pins
from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.conversation.thoughts import place_of
from cacheproxy.core.conversation.turn import Turn, unnamed
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request

_MOST_LANES = 64
_MOST_ALIKE = 64
"""Conversations that begin alike, at most, of a client that does not name them."""


class Store:
    """The conversations of ``most_bytes`` at most; the least recently used are forgotten first.

    A turn of a forgotten one is compared with nothing. ``bytes_stored`` is an estimate of all; the
    conversation used last stays, however large it is. Turns may be found and ended in any thread;
    they begin in one thread alone. ``hears``: whether answers are ``heard``; if there are only
    requests, as in a capture, the answers in later ones are taken for those relayed.
    """

    def __init__(self, most_bytes: int = sys.maxsize, *, hears: bool = True) -> None:
        self.bytes_stored, self._hears = 0, hears
        self.most_bytes = most_bytes
        self._known: OrderedDict[Session, Conversation] = OrderedDict()
        self._alike: dict[Session, list[Session]] = {}
        self._calls: dict[bytes, dict[str, str]] = {}
        self.readers: dict[Session, list[Hearing]] = {}
        """Readers of answers under way, by the first of the sessions that begin alike."""
        self._lock = Lock()

    def conversation(self, session: Session) -> Conversation | None:
        """Return the conversation of ``session``, for reading alone; None if it is not known."""
        return self._known.get(session)

    def requests(self, most_bytes: int) -> list[Request]:
        """Return the last request of each lane, latest first, ``most_bytes`` of bodies at most."""
        found: list[Request] = []
        for known in reversed(list(self._known.values())):
            for lane in known.lanes:
                most_bytes -= len(lane.request.body)
                if most_bytes < 0:
                    return found
                found.append(lane.request)
        return found

    def mains(self) -> list[Lane]:
        """Return the main lane of each conversation."""
        found = [known.lane(known.main) for known in list(self._known.values())]
        return [lane for lane in found if lane is not None]

    def warmed(self, lane: Lane, turn: Before, start: str | None) -> None:
        """Note that a server with another ``start`` (see ``Profile``) has read ``turn``.

        If that is still the last turn of ``lane``, the new start becomes that of the turn and home.
        """
        with self._lock:
            if lane.before is turn:
                lane.before = turn._replace(start=start, warmed=turn.warmed + 1)
                if lane.home is not None:
                    lane.home = lane.home._replace(start=start)

    def find(
        self,
        session: Session,
        request: Request,
        pins: Pins = NO_PINS,
        *,
        restores: bool = False,
    ) -> Turn:
        """Return the turn of ``request``; the store is not changed.

        ``pins``: those whose fields may differ between two turns. ``restores``: whether values may
        be put back. A request is compared with the lane of the history that it goes on with, or if
        that is not known, with the most similar lane. A client that names no sessions may begin two
        alike: a first turn begins a new one, a later one goes on with the one whose answers it has.
        """
        prompt = prompt_of(request)
        if prompt is None:
            return Turn(session)
        kin = Kinship(request, prompt, pins, is_named=session.is_named)
        root, known = parent_of(request, session), self._known.get(session)
        if root is not None and (parent := self._known.get(root)) is not None:
            root = parent.root or root
        source = self._source(session, known, kin) if restores else NOTHING
        own = source.history
        if own is not None and (source.goes_on or not kin.is_named):
            mine = self._known.get(own.session)
            lane = None if mine is None else mine.lane(own.lane)
            if lane is not None:
                return Turn(own.session, kin, prompt, lane, False, root, restores, source)
        if (alike := self._alike.get(session)) is not None:
            turn = unnamed(kin, {one: self._lanes(one) for one in alike})
            return turn._replace(root=root, restores=restores, source=source)
        lane, replaced = find_lane(() if known is None else known.lanes, kin)
        return Turn(session, kin, prompt, lane, replaced, root, restores, source)

    def _source(self, session: Session, known: Conversation | None, kin: Kinship) -> Source:
        """Return the source of values for the request of ``kin``."""
        if self.readers and not kin.is_named:
            self.read_on(session)
        if known is None and (alike := self._alike.get(session)):
            known = self._known.get(alike[-1])
        if known is None:
            return Histories().source(kin)
        histories = known.histories
        is_short = len(histories.known) < len(known.lanes) and not histories.has_forgotten
        if kin.is_named and is_short:
            histories = _seen(known)  # lanes in which no value could be put back have none yet
        return histories.source(kin)

    def begin(self, turn: Turn, request: Request) -> Place:
        """Add ``request``, which goes upstream, to the lane of its ``turn``; return its place.

        Whether it is beside the conversation is known at its end.
        """
        session, kin, prompt, lane, replaced, root, restores, source, _ = turn
        if prompt is None or kin is None:
            return Place(0, 1, is_side=False)
        with self._lock:
            known = self._known.get(session)
            if known is None:
                known = self._known[session] = Conversation(session, root)
                self._name(known)
            self._known.move_to_end(session)
            bare = request.bare()
            pair, lanes = None, known.lanes
            if lane is not None and lane in lanes:
                pair = Pair(lane.request, bare)
            else:  # a new lane, or one that was forgotten meanwhile
                number = lanes[-1].number + 1 if lanes else 0
                if len(lanes) >= _MOST_LANES:  # a client that never repeats itself: begin anew
                    lanes.clear()
                lane = Lane(number, bare, prompt, kin.prompt)
                lanes.append(lane)
            grown = lane.go_on(bare, prompt, kin.prompt)
            history = None
            if restores:
                length = len(kin.pieces)
                history = History(session, lane.number, bare, prompt, kin.prompt, length)
                if self._hears and not kin.is_named:
                    history.answers = set()
                history = known.histories.begin(source, history, kin)
            elif known.histories.known and kin.is_named:
                known.histories.forget(lane.number)  # no value can be put back any more
            if pair is None:
                grown = known.count(lane)
            else:  # the lane is counted when the turn ends
                known.cost += grown
            self.bytes_stored += grown
            if self.bytes_stored > self.most_bytes:
                self._drop()
            return Place(lane.number, lane.turns + 1, False, replaced, pair, history=history)

    def end(
        self,
        session: Session,
        place: Place,
        turn: Before | None,
        *,
        before: Before | None = None,
        broke: bool = False,
        curable: bool = False,
        is_whole: bool = True,
    ) -> Place:
        """Make ``turn``, which was evaluated, the one that the next in its lane is compared with.

        ``before``: turn that it was compared with. ``is_whole``: whether its client has the whole
        answer. ``broke``: whether it broke the cache because its request differs: then the two
        requests stay until the next break, or if a rule may help (``curable``), until the next such
        break. Returns the place of the turn.
        """
        known = self._known.get(session)
        lane = known.lane(place.lane) if known is not None else None
        if known is None or lane is None:
            return place
        branches = lane.branches_with(turn, before)  # outside of the lock, since it may take long
        with self._lock:
            lane.turns += 1
            if place.history is not None:
                place.history.is_answered |= is_whole
            if turn is not before:
                lane.before, lane.branches = turn, branches
            kept = lane.broken
            if broke and place.pair is not None and (curable or kept is None or not kept.curable):
                lane.broken = place.pair._replace(turn=lane.turns, curable=curable)
            if session in self._known:
                self.bytes_stored += known.count(lane)
                if self.bytes_stored > self.most_bytes:
                    self._drop()
            return known.place(lane, replaced=place.replaced)

    def home(self, turn: Turn, route: str) -> Home | None:
        """Return the home of the prefix of ``turn``, None if it has none.

        A new lane gets the home of another one of its session, or of its root, that took the same
        ``route``: usually they share their beginning.
        """
        if turn.lane is not None and turn.lane.home is not None:
            return turn.lane.home
        for session in (turn.session, turn.root):
            lanes = () if session is None else self._lanes(session)
            for lane in reversed(lanes):
                if lane.home is not None and lane.home.route == route:
                    return lane.home
        return None

    def settle(self, session: Session, number: int, home: Home) -> None:
        """Make ``home``, which is answering a turn of lane ``number``, the home of that lane."""
        known = self._known.get(session)
        lane = known.lane(number) if known is not None else None
        if lane is not None:
            lane.home = home

    def spellings(self, session: Session | None = None) -> Spellings:
        """Return the tool calls of ``session``, and of others with the same owner.

        Those are included since a conversation may be resumed under another name. New calls are
        added to ``session``.
        """
        owner = b"" if session is None else session.owner
        others = self._calls.setdefault(owner, {})

        def keep(call: str, text: str) -> None:
            with self._lock:
                known = self._known.get(session) if session is not None else None
                if known is not None:
                    known.calls[call] = self._calls.setdefault(owner, others)[call] = text

        known = self._known.get(session) if session is not None else None
        return Spellings(others if known is None else ChainMap(known.calls, others), keep)

    def reads(self, session: Session, reader: Hearing) -> None:
        """Add ``reader``, which reads an answer in ``session``, until it is ``heard``."""
        with self._lock:
            self.readers.setdefault(session.first, []).append(reader)

    def read_on(self, session: Session) -> None:
        """Read the received parts of answers in ``session``, and in those that begin alike."""
        for reader in tuple(self.readers.get(session.first, ())):
            reader.settle()

    def heard(
        self,
        session: Session,
        history: History | None,
        thought_key: int | None,
        reader: Hearing | None,
        heard: Heard,
    ) -> None:
        """Add an answer to the request of ``history``, with its reasoning; remove its ``reader``.

        ``thought_key``: place of the request, for the reasoning; None if that is not stored.
        """
        with self._lock:
            if heard is not NOTHING_HEARD:
                self._take(session, history, thought_key, heard)
            readers = self.readers.get(session.first, [])
            if reader in readers:
                readers.remove(reader)
            if not readers:
                self.readers.pop(session.first, None)

    def _take(
        self, session: Session, history: History | None, thought_key: int | None, heard: Heard
    ) -> None:
        """Add the answer to the history, and its reasoning to the conversation."""
        if history is not None:
            history.hear(heard)
        known = self._known.get(session)
        if known is None or thought_key is None:
            return
        if heard.said is None or heard.thought is None or not heard.is_whole:
            known.thoughts.miss(thought_key)
        else:
            known.thoughts.keep(place_of(thought_key, heard.said), heard.thought)
        self.bytes_stored += known.count()
        self._drop()

    def _lanes(self, session: Session) -> Sequence[Lane]:
        known = self._known.get(session)
        return () if known is None else known.lanes

    def _name(self, known: Conversation) -> None:
        """Add a conversation to those that begin alike, unless its client names it.

        They share reasoning and histories, so that ambiguity between two of them shows.
        """
        first = known.session.first
        if not first.is_named:
            alike = self._alike.setdefault(first, [])
            if alike and (other := self._known.get(alike[-1])) is not None:
                known.thoughts, known.histories = other.thoughts, other.histories
            alike.append(known.session)
            del alike[:-_MOST_ALIKE]

    def _drop(self) -> None:
        """Forget the least recently used conversations, if there are too many bytes."""
        while self.bytes_stored > self.most_bytes and len(self._known) > 1:
            session, gone = self._known.popitem(last=False)
            gone.histories.known = []  # also for all others that begin alike
            self.bytes_stored -= gone.cost
            calls = self._calls.get(session.owner, {})
            for call in gone.calls:
                calls.pop(call, None)
            if not calls:
                self._calls.pop(session.owner, None)
            first = session.first
            alike = self._alike.get(first, [])
            if session in alike:
                alike.remove(session)
            if not alike:
                self._alike.pop(first, None)


def _seen(known: Conversation) -> Histories:
    """Return the histories of a named session, with last requests for lanes without a history."""
    found = Histories()
    found.known = known.histories.known
    held = {one.lane for one in found.known}
    for lane in known.lanes:
        if lane.number not in held:
            length = len(lane.plain.made.run.pieces)
            texts = lane.request, lane.prompt, lane.plain, length
            found.known = [*found.known, History(known.session, lane.number, *texts)]
    return found
