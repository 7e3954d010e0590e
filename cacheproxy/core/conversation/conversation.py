"""One conversation: what the store remembers of it between turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import getsizeof

from cacheproxy.core.conversation.lanes import Lane, Place, share_of, tools_of
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.thoughts import Thoughts
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request

_MOST_LANES = 64
_EACH_CALL = 250


@dataclass(eq=False, slots=True)
class Conversation:
    """The lanes of one session, how the model spelled its tool calls, what it thought."""

    session: Session  #: whose it is
    root: Session | None = None  #: the session that it works for; None: nobody's
    lanes: list[Lane] = field(default_factory=list)  #: in the order of their first requests
    calls: dict[str, str] = field(default_factory=dict)
    """The arguments of tool calls as the model wrote them, by the calls' ids."""
    thoughts: Thoughts = field(default_factory=Thoughts)  #: reasoning that may be put back
    cost: int = 0  #: bytes that all of it took when it was last counted

    @property
    def main(self) -> int:
        """The lane that is the conversation: with tools before those without, then the longest.

        It may change as more comes: a title is asked for before the first turn.
        """
        ranks = [
            (bool(tools_of(lane.prompt)), lane.turns, -lane.number)
            for lane in self.lanes
            if lane.turns
        ]
        return -max(ranks)[2] if ranks else 0

    def count(self) -> int:
        """Return the bytes that it takes now, roughly."""
        calls = sum(map(getsizeof, self.calls.values())) + _EACH_CALL * len(self.calls)
        name = getsizeof(self.session.id)
        return name + calls + self.thoughts.cost + sum(lane.cost for lane in self.lanes)

    def begin(
        self, lane: Lane | None, request: Request, prompt: Prompt, plain: Prompt, shared: int
    ) -> Lane:
        """Take note that ``request`` goes upstream in ``lane``, or in a new one."""
        if lane is None:
            number = self.lanes[-1].number + 1 if self.lanes else 0
            if len(self.lanes) >= _MOST_LANES:  # a client that never repeats itself: begin anew
                self.lanes.clear()
            lane = Lane(number, request, prompt, plain, len(plain.made.run.pieces))
            self.lanes.append(lane)
        lane.go_on(request, prompt, plain, shared)
        return lane

    def lane(self, number: int) -> Lane | None:
        """Return the lane with that number, None where it was forgotten."""
        return next((lane for lane in self.lanes if lane.number == number), None)

    def place(self, lane: Lane, *, replaced: bool = False) -> Place:
        """Return where the last turn of ``lane`` stands."""
        several = sum(1 for one in self.lanes if one.turns) > 1
        is_side = several and lane.number != self.main
        return Place(lane.number, lane.turns, is_side, replaced, root=self.root)

    def share(self, prompt: Prompt) -> float:
        """Return how much of a lane's last messages ``prompt`` still has (0 to 1, the best)."""
        return share_of(self.lanes, prompt)
