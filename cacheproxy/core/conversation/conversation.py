"""One conversation: the state that the store has of it between turns."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from operator import attrgetter
from sys import getsizeof
from typing import Any

from cacheproxy.core.conversation.history import Histories
from cacheproxy.core.conversation.lanes import Lane, Place, alike_systems, system_of
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.thoughts import Thoughts
from cacheproxy.core.document.compare import alike

_EACH_CALL = 250
_COST, _TURNS, _REQUEST = map(attrgetter, ("cost", "turns", "request"))


@dataclass(eq=False, slots=True)
class Conversation:
    """The lanes of one session, with the spelling of its tool calls, and its reasoning."""

    session: Session  #: the session
    root: Session | None = None  #: session that this one works for, None if there is none
    lanes: list[Lane] = field(default_factory=list)  #: lanes in the order of their first requests
    calls: dict[str, str] = field(default_factory=dict)
    """Arguments of tool calls as the model wrote them, by the calls' ids."""
    thoughts: Thoughts = field(default_factory=Thoughts)  #: reasoning that may be put back
    histories: Histories = field(default_factory=Histories)  #: sources of values to be put back
    cost: int = 0  #: bytes of all this when it was last counted

    @property
    def main(self) -> int:
        """Number of the lane that is the conversation itself: with tools if any has, the longest.

        It may change: a client may ask for a title before the first turn.
        """
        best, main = (False, 0), 0
        for lane in self.lanes:
            rank = bool(lane.prompt.tools), lane.turns
            if lane.turns and rank > best:
                best, main = rank, lane.number
        return main

    def count(self, lane: Lane | None = None) -> int:
        """Count the bytes of the conversation, roughly, and return by how many they have grown.

        ``lane``: the lane that has changed since the last count.
        """
        if lane is not None:
            lane.count()
        was, name = self.cost, getsizeof(self.session.id)
        self.cost = name + self.thoughts.cost + sum(map(_COST, self.lanes))
        if self.calls:
            self.cost += sum(map(getsizeof, self.calls.values())) + _EACH_CALL * len(self.calls)
        if len(self.histories.known) > 1:
            self.cost += self.histories.cost(map(_REQUEST, self.lanes))
        return self.cost - was

    def lane(self, number: int) -> Lane | None:
        """Return the lane with that number, None if it was forgotten."""
        at = number - self.lanes[0].number if self.lanes else -1
        return self.lanes[at] if 0 <= at < len(self.lanes) else None

    def place(self, lane: Lane, *, replaced: bool = False) -> Place:
        """Return the place of the last turn of ``lane``."""
        is_main = self.lanes == [lane] or lane.number == self.main
        is_side, beside = (False, 0) if is_main else (self.is_beside(lane), lane.number + 1)
        return Place(lane.number, lane.turns, is_side, replaced, root=self.root, beside=beside)

    def is_beside(self, lane: Lane) -> bool:
        """Whether ``lane`` is beside the conversation; siblings with the same head are not."""
        main = self.lane(self.main)
        if main is lane or main is None or sum(map(bool, map(_TURNS, self.lanes))) < 2:
            return False
        ours, theirs = lane.prompt, main.prompt
        return not (
            ours.tools == theirs.tools and alike_systems(system_of(ours), system_of(theirs))
        )


class Spellings:
    """The arguments of tool calls as the model wrote them, by the call's id.

    Anthropic clients store a call's ``input`` as a value and spell it anew when they send it back:
    other spaces, other escapes, ``1`` for ``1.0``. A server reuses the prompt only if it gets its
    own spelling again.

    ``known``: arguments of all conversations' calls; ``keep``: function of id and arguments that
    adds a call of one conversation. Safe to use from several threads.
    """

    def __init__(
        self,
        known: MutableMapping[str, str] | None = None,
        keep: Callable[[str, str], None] | None = None,
    ) -> None:
        self._known: MutableMapping[str, str] = {} if known is None else known
        self._keep = self._known.__setitem__ if keep is None else keep

    def keep(self, call: str, text: str) -> None:
        """Add the call with the id ``call`` and the arguments ``text``, a JSON object."""
        self._keep(call, text)

    def find(self, call: str, text: str, value: Any) -> str:
        """Return the arguments as the model wrote them, else ``text``.

        ``text``: the client's spelling; ``value``: its parsed value. The model's spelling must mean
        the same, since a client may have changed the call.
        """
        kept = self._known.get(call)
        if kept is None or kept == text:
            return text
        try:
            same = alike(json.loads(kept), value)
        except (ValueError, RecursionError):
            return text
        return kept if same else text
