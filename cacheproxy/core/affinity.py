"""Which slot of a server each conversation keeps (llama-server's ``id_slot``).

Left to itself, llama-server gives a request the slot whose prompt is similar by a tenth, and a
title or a forked conversation takes the slot of the conversation it came from. Here a request
goes to the slot of its own session whose prompt it extends; any other request of that session
(a title, a subagent, a fork) gets another slot, and keeps that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cacheproxy.core.prompt import Prompt

_EXTENDS = 0.99
"""Share of a slot's prompt that a request must begin with to be given that slot."""
_MOST_OWN = 2
"""Slots of one session: its conversation, and whatever comes beside it."""

Pieces = tuple[tuple[int, int], ...]
"""A prompt as its segments' hashes and lengths, in the template's order."""


def pieces_of(prompt: Prompt) -> Pieces:
    """Return what ``Slots`` needs of a prompt: a hundredth of its size.

    The hashes are the same in every process, where Python's own are not.
    """
    return tuple((_hash(segment.text), len(segment.text)) for segment in prompt.segments)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@dataclass(slots=True)
class _Slot:
    """``session``: whose it is; ``weight``: characters of all its prompts; ``used``: when.

    ``pieces``: its last prompt; ``settled``: the one that this extended. Which of two requests
    that extend the same prompt is the conversation, the next turn tells.
    """

    session: str | None = None
    pieces: Pieces = ()
    settled: Pieces = ()
    weight: int = 0
    used: int = 0


class Slots:
    """The slots of one server, given out by session and prompt."""

    def __init__(self, count: int) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self._now = 0

    def __len__(self) -> int:
        return len(self._slots)

    def assign(self, session: str, pieces: Pieces) -> int | None:
        """Return the slot for a request, and note that it has it; None if there is no choice."""
        if len(self._slots) < 2:
            return None
        self._now += 1
        index = self._of_its_own(session, pieces)
        if index is None:
            index = self._another(session)
            self._slots[index] = _Slot(session)
        slot = self._slots[index]
        if share(slot.pieces, pieces) >= _EXTENDS:
            slot.settled = slot.pieces
        slot.pieces, slot.used = pieces, self._now
        slot.weight += sum(length for _, length in pieces)
        return index

    def _own(self, session: str) -> list[int]:
        return [index for index, slot in enumerate(self._slots) if slot.session == session]

    def _of_its_own(self, session: str, pieces: Pieces) -> int | None:
        """Return the slot whose prompt the request extends best."""
        shares = [
            (share(known, pieces), self._slots[index].weight, index)
            for index in self._own(session)
            for known in (self._slots[index].pieces, self._slots[index].settled)
        ]
        best, _, index = max(shares, default=(0.0, 0, 0))
        return index if best >= _EXTENDS else None

    def _another(self, session: str) -> int:
        """Return the slot that is missed least: nobody's, one's own second, the longest unused."""
        free = [index for index, slot in enumerate(self._slots) if slot.session is None]
        if free:
            return free[0]
        own = self._own(session)
        beside = [index for index in own if index != self._main(session)]
        if len(own) >= _MOST_OWN:
            return min(beside, key=lambda index: self._slots[index].used)
        others = [index for index in range(len(self._slots)) if index not in own]
        return min(others, key=self._worth)

    def _worth(self, index: int) -> tuple[bool, int]:
        """What is lost with a slot: a conversation's more than what came beside it."""
        session = self._slots[index].session or ""
        last = max(self._slots[i].used for i in self._own(session))
        return index == self._main(session), last

    def _main(self, session: str) -> int:
        """Return the slot of the session's conversation: what comes beside it is shorter."""
        return max(self._own(session), key=lambda i: (self._slots[i].weight, -i), default=-1)


def share(known: Pieces, pieces: Sequence[tuple[int, int]]) -> float:
    """Return how much of ``known`` the new prompt begins with, in characters (0 to 1)."""
    common = 0
    for one, other in zip(known, pieces, strict=False):
        if one != other:
            break
        common += one[1]
    total = sum(length for _, length in known)
    return common / total if total else 0.0
