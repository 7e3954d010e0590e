"""Which requests of a session extend one another, and which only come in between.

A session is what a client says belongs together. In it run lanes: the conversation itself, and
beside it what else the client asks of the model (a title, a subagent, a heartbeat), which a
server with one slot pays for by losing the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from cacheproxy.core.diff.text import share_of_words
from cacheproxy.core.prompt.prompt import Part, Prompt

_TEXT = attrgetter("text")
_HALF = 0.5
_SAME_SYSTEM = 0.6
"""Share of its words from which a system text is the same one, some fields of it changed."""


class Place(NamedTuple):
    """Where a request belongs: ``lane`` and ``turn`` (from 1) in the order of their first.

    ``is_side``: whether it is beside the conversation, as far as was known when it came.
    ``replaced``: its history was written anew, and is much shorter (a compaction).
    """

    lane: int
    turn: int
    is_side: bool
    replaced: bool = False


class _History(NamedTuple):
    """Digests of all texts of the messages, those of the first message, how many messages."""

    texts: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    length: int = 0

    @classmethod
    def of(cls, prompt: Prompt) -> _History:
        texts, pieces, heads = prompt.digests, prompt.made.run.pieces, prompt.made.heads
        if len(pieces) <= heads:  # one text, or an API whose messages are not told apart
            return cls(texts, texts[:1], len(texts))
        return cls(texts, pieces[heads].digests, len(pieces) - heads)

    def begins_anew(self, before: _History) -> bool:
        """Whether it is ``before`` in other words: neither its beginning, nor half as long.

        A conversation only grows, and a turn taken back keeps the beginning.
        """
        return self.first != before.first and 0 < 2 * self.length <= before.length


_NO_HISTORY = _History()


@dataclass(slots=True)
class _Lane:
    """What is kept of a lane: its last messages, its tools and system text."""

    tools: frozenset[str]
    system: tuple[str, ...]
    messages: _History = _NO_HISTORY
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
        messages = _History.of(prompt)
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
        texts = prompt.digests
        return max((_share(lane.messages.texts, texts) for lane in self._lanes), default=0.0)

    def _find(
        self, tools: frozenset[str], system: tuple[str, ...], messages: _History
    ) -> tuple[int | None, bool]:
        shares = [
            _share(lane.messages.texts, messages.texts) if _alike_tools(lane.tools, tools) else 0.0
            for lane in self._lanes
        ]
        best = max(shares, default=0.0)
        if best >= _HALF:
            return len(shares) - 1 - shares[::-1].index(best), False
        for index in reversed(range(len(self._lanes))):
            lane = self._lanes[index]
            if lane.tools == tools and alike_systems("".join(lane.system), "".join(system)):
                return index, messages.begins_anew(lane.messages)
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
