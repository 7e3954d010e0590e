"""The reasoning that a model put before its answers, for clients that do not send it back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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
    """The reasoning in one conversation, by what was said before the answer and the answer itself.

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

    def keep(self, before: Digests, said: int, thought: Thought) -> None:
        """Remember ``thought``. ``before``: the message before the answer; ``said``: the answer."""
        key = hash((before, said))
        gone = self._known.pop(key, None)
        self._known[key] = thought
        self._bytes += _cost(thought) - (0 if gone is None else _cost(gone))
        while self._bytes > _MOST_BYTES and len(self._known) > 1:
            self._bytes -= _cost(self._known.popitem(last=False)[1])

    def find(self, before: Digests, answer: Digests, said: Callable[[], int]) -> Thought | None:
        """Return what was reasoned before an answer, None for not known.

        ``before``: the message before it; ``answer``: how it reads now. ``said``: returns what
        ``keep`` was told of it, which is asked but once.
        """
        if not self._known:
            return None
        place = hash((before, answer))
        known = self._seen.get(place)
        if known is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            known = self._seen[place] = hash((before, said()))
        found = self._known.get(known)
        if found is not None:
            self._known.move_to_end(known)
        return found


def _cost(thought: Thought) -> int:
    return _EACH + getsizeof(thought.spelled)
