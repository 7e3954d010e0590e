"""The reasoning of conversations, by the answers that it led to."""

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


class Thought(NamedTuple):
    """What was reasoned before one answer."""

    name: str  #: of the message's member that the server gave it as, "" for a block of its own
    spelled: str  #: the text as a JSON string, quotes included


NO_THOUGHT = Thought("", "")
"""That of an answer without reasoning."""


def place_of(before: int, said: int) -> int:
    """Return a number for the place of a message that says ``said``, behind all that is before.

    The place of an answer is that of what the model says, behind the place where it was asked.
    """
    return hash((before, said))


class Thoughts:
    """The reasoning of conversations that begin alike, by the place of the answer that it led to.

    A place is told by all that was said before the answer, and by the answer itself. Where two
    answers have one place (it was asked for anew, or two conversations are equal so far) and one
    had other reasoning or none, nobody knows whose is meant, so there is none from then on. Nor is
    there any where an answer could not be read: it may have said the same.
    ``asked_by``: the member of chat_template_kwargs that keeps it in the prompt, since that is
    asked for; None before. Safe to use from several threads: a race loses an entry at most.
    """

    def __init__(self) -> None:
        self.asked_by: tuple[str, bool] | None = None
        self._known: OrderedDict[int, Thought] = OrderedDict()
        self._bytes = 0
        self._gone: set[int] = set()
        self.unread: set[int] = set()  #: where answers were asked for that could not be read
        self._said: dict[int, int] = {}

    @property
    def cost(self) -> int:
        """Bytes that all of it takes, roughly."""
        seen = len(self._said) + len(self._gone) + len(self.unread)
        return self._bytes + _EACH_SEEN * seen

    def keep(self, place: int, thought: Thought) -> None:
        """Remember ``thought``, if there has been no other one at its place."""
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
        """Return what was reasoned before the answer at ``place``, None for not known."""
        with suppress(KeyError):  # it may go in another thread meanwhile
            self._known.move_to_end(place)
            found = self._known[place]
            return None if found is NO_THOUGHT else found
        return None

    def miss(self, asked: int) -> None:
        """Take note that an answer could not be read that was asked for at the place ``asked``."""
        if len(self.unread) >= _MOST_SEEN:
            self._forget_all()
        self.unread.add(asked)

    def said(self, piece: int, work: Callable[[], int]) -> int:
        """Return what an answer says that reads as ``piece``; ``work`` is asked but once."""
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
        """Forget all: without what is ambiguous, the rest would seem to be sure."""
        self._known.clear()
        self._gone.clear()
        self.unread.clear()
        self._bytes = 0


def _cost(thought: Thought) -> int:
    return _EACH + getsizeof(thought.spelled)
