"""Which requests of a session extend one another, and which only come in between.

A session is what a client says belongs together. In it run lanes: the conversation itself, and
beside it what else the client asks of the model (a title, a subagent, a heartbeat), which a
server with one slot pays for by losing the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from cacheproxy.core.hunks import share_of_words
from cacheproxy.core.prompt import Part, Prompt

_TEXT = attrgetter("text")
_HALF = 0.5
_SAME_SYSTEM = 0.6
"""Share of its words from which a system text is the same one, some fields of it changed."""


class Place(NamedTuple):
    """Where a request belongs: ``lane`` and ``turn`` (from 1) in the order of their first.

    ``is_side``: whether it is beside the conversation, as far as was known when it came.
    ``replaced``: a turn whose history was written anew (a compaction).
    """

    lane: int
    turn: int
    is_side: bool
    replaced: bool = False


@dataclass(slots=True)
class _Lane:
    """What is kept of a lane: digests of its last messages, its tools and system text."""

    tools: frozenset[str]
    system: tuple[str, ...]
    messages: tuple[int, ...] = ()
    turns: int = 0


@dataclass(slots=True)
class Lanes:
    """The lanes of one session. Each keeps its last system text and a number per message block.

    How many lanes and sessions there are is for the owner to bound.
    """

    _lanes: list[_Lane] = field(default_factory=list)

    @property
    def main(self) -> int:
        """The lane that is the conversation: with tools before those without, then the longest.

        It may change as more comes: a title is asked for before the first turn.
        """
        ranks = [(bool(lane.tools), lane.turns, -index) for index, lane in enumerate(self._lanes)]
        return ranks.index(max(ranks)) if ranks else 0

    def place(self, prompt: Prompt) -> Place:
        """Return the lane that ``prompt`` extends, or a new one, and count it."""
        tools = tools_of(prompt)
        system = tuple(map(_TEXT, prompt.of(Part.SYSTEM)))
        messages = prompt.digests
        index, replaced = self._find(tools, system, messages)
        if index is None:
            index = len(self._lanes)
            self._lanes.append(_Lane(tools, system))
        lane = self._lanes[index]
        lane.tools, lane.system, lane.messages = tools, system, messages
        lane.turns += 1
        is_side = len(self._lanes) > 1 and index != self.main
        return Place(index, lane.turns, is_side, replaced)

    def contains(self, prompt: Prompt) -> float:
        """Return how much of a lane's last messages ``prompt`` still has (0 to 1, the best)."""
        return max((_share(lane.messages, prompt.digests) for lane in self._lanes), default=0.0)

    def _find(
        self, tools: frozenset[str], system: tuple[str, ...], messages: tuple[int, ...]
    ) -> tuple[int | None, bool]:
        shares = [
            _share(lane.messages, messages) if _alike_tools(lane.tools, tools) else 0.0
            for lane in self._lanes
        ]
        best = max(shares, default=0.0)
        if best >= _HALF:
            return len(shares) - 1 - shares[::-1].index(best), False
        for index in reversed(range(len(self._lanes))):
            lane = self._lanes[index]
            if lane.tools == tools and alike_systems("".join(lane.system), "".join(system)):
                # Whether a message or two have changed, or all: nothing of them is left.
                return index, frozenset(messages).isdisjoint(lane.messages)
        return None, False


def tools_of(prompt: Prompt) -> frozenset[str]:
    """Return the names of the tools."""
    return prompt.made.tool_piece.names


def system_of(prompt: Prompt) -> str:
    """Return the system text."""
    return "".join(map(_TEXT, prompt.of(Part.SYSTEM)))


def alike_systems(one: str, other: str) -> bool:
    """Whether two system texts are one, some fields of it changed."""
    return one == other or share_of_words(one, other) >= _SAME_SYSTEM


def _share(known: tuple[int, ...], messages: tuple[int, ...]) -> float:
    """How much of ``known`` is among ``messages``: all of it, as a rule, and in the same order."""
    if not known or messages[: len(known)] == known:
        return float(bool(known))
    return sum(map(frozenset(messages).__contains__, known)) / len(known)


def _alike_tools(one: frozenset[str], other: frozenset[str]) -> bool:
    return one is other or len(one & other) >= _HALF * len(one | other)
