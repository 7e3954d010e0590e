"""The store of conversations: it also says which request is the turn before.

Rules ask it for the previous request, verdicts for the previous prompt, translation for the
spelling of earlier tool calls. ``tap`` makes one store for all of them.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from cacheproxy.core.conversation.conversation import Conversation
from cacheproxy.core.conversation.lanes import (
    Before,
    Home,
    Lane,
    Pair,
    Place,
    find_lane,
    is_another,
)
from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.conversation.thoughts import Thought
from cacheproxy.core.prompt.prompt import Prompt, prompt_of
from cacheproxy.core.prompt.request import Request

_MOST_ALIKE = 64
"""Conversations that begin alike, of a client that does not name them."""


class Turn(NamedTuple):
    """Where a request belongs, before it is sent.

    ``prompt``: None where it has none that we can read. ``lane``: None for a new one.
    ``replaced``: see ``Place``. ``root``: the session that it works for.
    """

    session: Session
    prompt: Prompt | None = None
    lane: Lane | None = None
    replaced: bool = False
    root: Session | None = None

    @property
    def previous(self) -> Request | None:
        """The request before in the same lane, as the rules left it."""
        return self.lane.request if self.lane is not None else None

    @property
    def with_same_tools(self) -> Request | None:
        """The last request of the lane with the same tools; the one before if there is none."""
        if self.lane is None or self.prompt is None:
            return None
        return self.lane.with_tools_of(self.prompt)


class Store:
    """Keeps conversations up to ``most_bytes``; the least recently used go first.

    A turn of one that was forgotten is compared with nothing. ``bytes_kept`` estimates what they
    take; the one used last stays, however large it is. Turns may be found and ended in threads;
    that they begin is said on one thread alone.
    """

    def __init__(self, most_bytes: int = sys.maxsize) -> None:
        self.bytes_kept = 0
        self.most_bytes = most_bytes
        self._known: OrderedDict[Session, Conversation] = OrderedDict()
        self._alike: dict[Session, list[Session]] = {}
        self._calls: dict[str, str] = {}
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

    def find(self, session: Session, request: Request) -> Turn:
        """Return where ``request`` belongs, without any change to what is remembered.

        A client that names no sessions may begin two alike. They are told apart by the answers:
        a request that has none of those in the conversation is another's.
        """
        prompt = prompt_of(request)
        if prompt is None:
            return Turn(session)
        if session in self._alike:
            session, lane, replaced = self._told_apart(session, prompt)
        else:
            lane, replaced = find_lane(self._lanes(session), prompt)
        root = parent_of(request, session)
        parent = None if root is None else self._known.get(root)
        if parent is not None and parent.root is not None:
            root = parent.root
        return Turn(session, prompt, lane, replaced, root)

    def begin(self, turn: Turn, request: Request) -> Place:
        """Take note that ``request`` goes upstream; ``turn``: where it was found to belong.

        Whether it is beside the conversation is known at its end.
        """
        session, prompt, lane, replaced, root = turn
        if prompt is None:
            return Place(0, 1, is_side=False)
        with self._lock:
            known = self._known.get(session)
            if known is None:
                known = self._known[session] = Conversation(session, root)
                self._name(session)
            self._known.move_to_end(session)
            if lane is not None and lane not in known.lanes:  # forgotten meanwhile
                lane = None
            head = request.method, request.target, request.headers
            bare = Request(*head, request.body, request.memo)  # without what was read of it
            pair = None if lane is None else Pair(lane.request, bare)
            lane = known.begin(lane, bare, prompt)
            self._count(known)
            return Place(lane.number, lane.turns + 1, False, replaced, pair)

    def end(
        self,
        session: Session,
        place: Place,
        before: Before | None,
        *,
        broke: bool = False,
        curable: bool = False,
    ) -> Place:
        """Take note that a turn was evaluated: the next one in its lane is compared with it.

        Of one that ``broke`` the cache, since its request left the one before, both are kept until
        the next one does; where a rule may help (``curable``), until the next one like it does.
        """
        known = self._known.get(session)
        lane = known.lane(place.lane) if known is not None else None
        if known is None or lane is None:
            return place
        with self._lock:
            lane.turns += 1
            lane.before = before
            kept = lane.broken
            if broke and place.pair is not None and (curable or kept is None or not kept.curable):
                lane.broken = place.pair._replace(turn=lane.turns, curable=curable)
            lane.count()
            if session in self._known:
                self._count(known)
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
        """Return the tool calls of all conversations; new ones are kept as those of ``session``."""

        def keep(call: str, text: str) -> None:
            with self._lock:
                known = self._known.get(session) if session is not None else None
                if known is not None:
                    known.calls[call] = self._calls[call] = text

        return Spellings(self._calls, keep)

    def think(self, session: Session, place: int, thought: Thought) -> None:
        """Remember what was reasoned before an answer (see ``Thoughts.keep``)."""
        with self._lock:
            known = self._known.get(session)
            if known is not None:
                known.thoughts.keep(place, thought)
                self._count(known)

    def _lanes(self, session: Session) -> Sequence[Lane]:
        known = self._known.get(session)
        return () if known is None else known.lanes

    def _told_apart(self, session: Session, prompt: Prompt) -> tuple[Session, Lane | None, bool]:
        """Return which of the conversations that begin alike ``prompt`` goes on with, and where.

        If with none of them, a new one.
        """
        best, most = None, -1.0
        for one in self._alike.get(session, ()):
            known = self._known.get(one)
            lane, replaced = find_lane(self._lanes(one), prompt)
            if known is None or (lane is not None and is_another(lane, prompt)):
                continue
            share = known.share(prompt)
            if share >= most:
                best, most = (one, lane, replaced), share
        if best is not None:
            return best
        last = self._alike[session][-1].id if self._alike.get(session) else session.id
        number = int(last.partition("-")[2] or 1) + 1
        return Session(session.client, f"{session.id}-{number}"), None, False

    def _name(self, session: Session) -> None:
        first = session.first
        if not first.is_named:
            alike = self._alike.setdefault(first, [])
            alike.append(session)
            del alike[:-_MOST_ALIKE]

    def _count(self, known: Conversation) -> None:
        """Count what a conversation takes, and let the least recently used go if need be."""
        self.bytes_kept -= known.cost
        known.cost = known.count()
        self.bytes_kept += known.cost
        while self.bytes_kept > self.most_bytes and len(self._known) > 1:
            session, gone = self._known.popitem(last=False)
            self.bytes_kept -= gone.cost
            for call in gone.calls:
                self._calls.pop(call, None)
            first = session.first
            alike = self._alike.get(first, [])
            if session in alike:
                alike.remove(session)
            if not alike:
                self._alike.pop(first, None)
