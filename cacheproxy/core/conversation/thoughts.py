"""The reasoning that a model put before its answers, for clients that do not send it back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from sys import getsizeof
from typing import NamedTuple

_EACH = 250
"""Bytes that a thought takes beside its text."""
_MOST_BYTES = 32 << 20
"""More than any model's context holds: beyond it, the least recently asked for is of history that
the client has dropped."""
_MOST_SEEN = 16_384
_EACH_SEEN = 120

Digests = tuple[int, ...]
"""What a message says, as ``Piece.digests``."""


class Thought(NamedTuple):
    """What was reasoned before one answer.

    ``name``: of the message's member that the server gave it as, "" for a block of its own.
    ``spelled``: the text as a JSON string, quotes included.
    """

    name: str
    spelled: str


class Thoughts:
    """The reasoning in one conversation, by the place of the answer that it led to.

    A place is told by what was said before the answer, by the answer itself, and by how often both
    had stood in the conversation before: who says "go on" twice may be answered alike.
    ``asked_by``: the member of chat_template_kwargs that keeps it in the prompt, since that is
    asked for; None before. Safe to use from several threads: a race loses an entry at most.
    """

    def __init__(self) -> None:
        self.asked_by: tuple[str, bool] | None = None
        self._known: OrderedDict[int, Thought] = OrderedDict()
        self._bytes = 0
        self._seen: dict[int, int] = {}

    @property
    def cost(self) -> int:
        """Bytes that all of it takes, roughly."""
        return self._bytes + _EACH_SEEN * len(self._seen)

    def keep(self, place: int, thought: Thought) -> None:
        """Remember ``thought``. The first one stays: it may have been given back by now."""
        if place in self._known:
            return
        self._known[place] = thought
        self._bytes += _cost(thought)
        while self._bytes > _MOST_BYTES and len(self._known) > 1:
            self._bytes -= _cost(self._known.popitem(last=False)[1])

    def find(self, place: int) -> Thought | None:
        """Return what was reasoned before the answer at ``place``, None for not known."""
        with suppress(KeyError):  # it may go in another thread meanwhile
            self._known.move_to_end(place)
            return self._known[place]
        return None

    def pair(self, before: Digests, answer: Digests, said: Callable[[], int]) -> int:
        """Return ``pair`` of a message and the answer to it; ``said`` is asked but once."""
        key = hash((before, answer))
        known = self._seen.get(key)
        if known is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            known = self._seen[key] = pair(before, said())
        return known


def pair(before: Digests, said: int) -> int:
    """Return a number for a message and the answer to it."""
    return hash((before, said))


def place(pair: int, times: int) -> int:
    """Return the place of an answer: ``pair`` has stood so many ``times`` before."""
    return hash((pair, times))


def _cost(thought: Thought) -> int:
    return _EACH + getsizeof(thought.spelled)
