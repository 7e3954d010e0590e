"""The store of conversations: it also says which request is the turn before.

Rules ask it for the previous request, verdicts for the previous prompt, translation for the
spelling of earlier tool calls. ``tap`` makes one store for all of them.
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
from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.conversation.thoughts import place_of
from cacheproxy.core.conversation.turn import Turn, unnamed
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.rule import Rule

_MOST_LANES = 64
_MOST_ALIKE = 64
"""Conversations that begin alike, of a client that does not name them."""


class Store:
    """Keeps conversations up to ``most_bytes``; the least recently used go first.

    A turn of one that was forgotten is compared with nothing. ``bytes_kept`` estimates what they
    take; the one used last stays, however large it is. Turns may be found and ended in threads;
    that they begin is said on one thread alone. ``hears``: answers are ``heard``; where there are
    requests alone, as in a capture, the answers in later ones are taken for what was relayed.
    """

    def __init__(self, most_bytes: int = sys.maxsize, *, hears: bool = True) -> None:
        self.bytes_kept, self._hears = 0, hears
        self.most_bytes = most_bytes
        self._known: OrderedDict[Session, Conversation] = OrderedDict()
        self._alike: dict[Session, list[Session]] = {}
        self._calls: dict[bytes, dict[str, str]] = {}
        self.readers: dict[Session, list[Hearing]] = {}
        """What reads answers now, by the first of the sessions that begin alike."""
        self._lock = Lock()

    def conversation(self, session: Session) -> Conversation | None:
        """Return what is known of ``session``, to be looked at."""
        return self._known.get(session)

    def requests(self, most_bytes: int) -> list[Request]:
        """Return the last request of each lane, those used last first, of so many bytes in all."""
        found: list[Request] = []
        for known in reversed(list(self._known.values())):
            for lane in known.lanes:
                most_bytes -= len(lane.request.body)
                if most_bytes < 0:
                    return found
                found.append(lane.request)
        return found

    def mains(self) -> list[Lane]:
        """Return the lane of each conversation that is the conversation itself."""
        found = [known.lane(known.main) for known in list(self._known.values())]
        return [lane for lane in found if lane is not None]

    def warmed(self, lane: Lane, turn: Before, start: str | None) -> None:
        """Take note that a server with another ``start`` (see ``Profile``) has read ``turn``.

        So it is where the last turn of ``lane`` was evaluated, if that is still this one.
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
        pins: Sequence[Rule] = (),
        *,
        restores: bool = False,
    ) -> Turn:
        """Return where ``request`` belongs, without any change to what is remembered.

        ``pins``: the rules whose fields may differ between two turns. ``restores``: values may be
        put back. A request is compared with the lane of the history that it goes on with; where
        that is not known, by likeness. A client that names no sessions may begin two alike: its
        first turn begins a new one, a later one goes on with the one whose answers it carries.
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
        """Return what may be put back into the request of ``kin``."""
        if self.readers and not kin.is_named:
            self.read_on(session)
        if known is None and (alike := self._alike.get(session)):
            known = self._known.get(alike[-1])
        if known is None:
            return Histories().source(kin)
        histories = known.histories
        is_short = len(histories.known) < len(known.lanes) and not histories.has_forgotten
        if kin.is_named and is_short:
            histories = _seen(known)  # at some of their turns no rule put anything back
        return histories.source(kin)

    def begin(self, turn: Turn, request: Request) -> Place:
        """Take note that ``request`` goes upstream; ``turn``: where it was found to belong.

        Whether it is beside the conversation is known at its end.
        """
        session, kin, prompt, lane, replaced, root, restores, source = turn
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
            else:  # it is a new one, or was forgotten meanwhile
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
                history.answers = set() if self._hears and not kin.is_named else None
                history = known.histories.begin(source, history, kin)
            elif known.histories.known and kin.is_named:
                known.histories.forget(lane.number)  # it goes on without
            if pair is None:
                grown = known.count(lane)
            else:  # it is counted when its turn ends
                known.cost += grown
            self.bytes_kept += grown
            if self.bytes_kept > self.most_bytes:
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
        """Take note that a ``turn`` was evaluated: the next one in its lane is compared with it.

        ``before``: the one that it was compared with. ``is_whole``: whether its client has the
        whole answer.

        Of one that ``broke`` the cache, since its request left the one before, both are kept until
        the next one does; where a rule may help (``curable``), until the next one like it does.
        """
        known = self._known.get(session)
        lane = known.lane(place.lane) if known is not None else None
        if known is None or lane is None:
            return place
        branches = lane.branches_with(turn, before)  # nobody waits for the lock meanwhile
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
                self.bytes_kept += known.count(lane)
                if self.bytes_kept > self.most_bytes:
                    self._drop()
            return known.place(lane, replaced=place.replaced)

    def home(self, turn: Turn, route: str) -> Home | None:
        """Return where the prefix of ``turn`` is, None for nowhere.

        A new lane begins where others are of its session, or of its root, that took its ``route``:
        it shares their beginning, as a rule.
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
        """Take note that a turn of lane ``number`` is being answered at ``home``."""
        known = self._known.get(session)
        lane = known.lane(number) if known is not None else None
        if lane is not None:
            lane.home = home

    def spellings(self, session: Session | None = None) -> Spellings:
        """Return the tool calls of ``session``, and of others with its credentials.

        New ones are kept as its own. A conversation may be resumed under another name.
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
        """Take note that ``reader`` reads an answer in ``session``, until it was ``heard``."""
        with self._lock:
            self.readers.setdefault(session.first, []).append(reader)

    def read_on(self, session: Session) -> None:
        """Have all read that has come of the answers in ``session``, and those that begin alike."""
        for reader in tuple(self.readers.get(session.first, ())):
            reader.settle()

    def heard(
        self,
        session: Session,
        history: History | None,
        asked: int | None,
        reader: Hearing | None,
        heard: Heard,
    ) -> None:
        """Take note of what was answered to the request of ``history``, and its reasoning.

        ``asked``: where reasoning is remembered, None for nowhere.
        """
        with self._lock:
            if heard is not NOTHING_HEARD:
                self._take(session, history, asked, heard)
            readers = self.readers.get(session.first, [])
            if reader in readers:
                readers.remove(reader)
            if not readers:
                self.readers.pop(session.first, None)

    def _take(
        self, session: Session, history: History | None, asked: int | None, heard: Heard
    ) -> None:
        """Remember what was heard."""
        if history is not None:
            history.hear(heard)
        known = self._known.get(session)
        if known is None or asked is None:
            return
        if heard.said is None or heard.thought is None or not heard.is_whole:
            known.thoughts.miss(asked)
        else:
            known.thoughts.keep(place_of(asked, heard.said), heard.thought)
        self.bytes_kept += known.count()
        self._drop()

    def _lanes(self, session: Session) -> Sequence[Lane]:
        known = self._known.get(session)
        return () if known is None else known.lanes

    def _name(self, known: Conversation) -> None:
        """Take note of a conversation that its client does not name.

        All that begin alike share what was reasoned in them, and whose values may be put back: so
        it shows where two of them are one.
        """
        first = known.session.first
        if not first.is_named:
            alike = self._alike.setdefault(first, [])
            if alike and (other := self._known.get(alike[-1])) is not None:
                known.thoughts, known.histories = other.thoughts, other.histories
            alike.append(known.session)
            del alike[:-_MOST_ALIKE]

    def _drop(self) -> None:
        """Let the least recently used ones go, if need be."""
        while self.bytes_kept > self.most_bytes and len(self._known) > 1:
            session, gone = self._known.popitem(last=False)
            gone.histories.clear()  # those of all that begin alike
            self.bytes_kept -= gone.cost
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
    """Return the histories of a named session, and the last requests of lanes without any."""
    found = Histories()
    found.known = known.histories.known
    held = {one.lane for one in found.known}
    for lane in known.lanes:
        if lane.number not in held:
            length = len(lane.plain.made.run.pieces)
            texts = lane.request, lane.prompt, lane.plain, length
            found.known = [*found.known, History(known.session, lane.number, *texts)]
    return found
