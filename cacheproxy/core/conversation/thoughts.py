"""The reasoning of conversations, by the answers that it led to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from sys import getsizeof
from typing import NamedTuple

_MOST_BYTES = 32 << 20
"""Bytes of reasoning at most, more than any model's context: beyond it, the least recently used is
of history that the client has dropped."""
_MOST_SEEN = 16_384
_EACH_SEEN = 120


class Thought(NamedTuple):
    """The reasoning before one answer."""

    name: str  #: the server's name for the message's member, "" for a block of its own
    spelled: str  #: text as a JSON string, quotes included


NO_THOUGHT = Thought("", "")
"""The thought of an answer without reasoning."""


def place_of(before: int, said: int) -> int:
    """Return a hash for the place of a message with content ``said`` behind the place ``before``.

    The place of an answer is that of its content, behind the place of the request for it.
    """
    return hash((before, said))


class Thoughts:
    """The reasoning of conversations that begin alike, by the place of the answer that it led to.

    A place is a hash of all messages before the answer, and of the answer. If two answers have one
    place (a repeated request, or two conversations that are equal so far) and their reasoning
    differs, it is ambiguous, and there is none from then on. Nor is there any at a place where an
    answer could not be read, which may have been equal.
    ``switch``: member of chat_template_kwargs, with its value, by which requests keep reasoning
    in the prompt; None before the first. Safe to use from several threads: a race loses an entry at
    most.
    """

    def __init__(self) -> None:
        self.switch: tuple[str, bool] | None = None
        self._known: OrderedDict[int, Thought] = OrderedDict()
        self._bytes = 0
        self._gone: set[int] = set()
        self.unread: set[int] = set()  #: places of requests whose answers could not be read
        self._said: dict[int, int] = {}

    @property
    def cost(self) -> int:
        """Bytes of all entries, roughly."""
        seen = len(self._said) + len(self._gone) + len(self.unread)
        return self._bytes + _EACH_SEEN * seen

    def keep(self, place: int, thought: Thought) -> None:
        """Add ``thought`` at ``place``; if another one is there, neither is returned any more."""
        known = self._known.get(place)
        if known == thought or place in self._gone:
            return
        if known is not None:
            self._forget(place)
            return
        self._known[place] = thought
        self._bytes += _cost(thought)
        while self._bytes > _MOST_BYTES and len(self._known) > 1:
            self._forget(next(iter(self._known)))

    def find(self, place: int) -> Thought | None:
        """Return the reasoning before the answer at ``place``, None if there is none or unknown."""
        with suppress(KeyError):  # another thread may remove it meanwhile
            self._known.move_to_end(place)
            found = self._known[place]
            return None if found is NO_THOUGHT else found
        return None

    def miss(self, thought_key: int) -> None:
        """Note that the answer to a request at the place ``thought_key`` could not be read."""
        if len(self.unread) >= _MOST_SEEN:
            self._forget_all()
        self.unread.add(thought_key)

    def said(self, piece: int, work: Callable[[], int]) -> int:
        """Return the hash of the answer with the digest ``piece``; ``work`` computes it once."""
        known = self._said.get(piece)
        if known is None:
            if len(self._said) >= _MOST_SEEN:
                self._said.clear()
            known = self._said[piece] = work()
        return known

    def _forget(self, place: int) -> None:
        thought = self._known.pop(place, None)
        if thought is not None:
            self._bytes -= _cost(thought)
        if len(self._gone) >= _MOST_SEEN:
            self._forget_all()
        self._gone.add(place)

    def _forget_all(self) -> None:
        """Forget all: without its record of ambiguous places, the rest would seem certain."""
        self._known.clear()
        self._gone.clear()
        self.unread.clear()
        self._bytes = 0


def _cost(thought: Thought) -> int:
    return 250 + getsizeof(thought.spelled)  # bytes of a thought beside its text
