"""What a test prompt would push out of llama-server's slots.

Measured with llama.cpp (xllamacpp 2026.10): a prompt unlike all others goes to a slot that was
never used, else to the one used longest ago; what that one held is gone, unless the RAM cache
(``--cache-ram``) has taken it. No page tells whether that is on. Where slots share one memory its
profile shows it (see ``core.server.telling``). On a server with one slot it shows in the turns that
went through the proxy: one reused all of the turn before although another prompt had had the slot
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cacheproxy.core.server.status import Slot
from cacheproxy.doctor.record import Record, SeenExchange

CHEAP = 1000
"""Tokens that a server reads again in no time; our own prompts are shorter, too."""
_OURS = 2000
"""Tokens of our prompts in all the slots that they can be in at a time."""
ALIKE = 0.1
"""Of a prompt: what it must share with a slot's to be given that slot, by default."""
_ALL = 0.9


def at_stake(slots: Sequence[Slot], *, keeps: bool) -> int | None:
    """Return how many tokens the next prompt may push out; None: the server does not tell.

    ``keeps``: whether it is known that what is pushed out is kept in RAM.
    """
    if keeps:
        return 0
    if not slots:
        return None
    held = [slot.used for slot in slots]
    idle = [slot for slot in slots if not slot.busy]
    is_full = len(slots) > 1 and sum(held) + _OURS > slots[0].context
    if is_full or not idle:  # a memory that slots share is made free; the first that is free takes
        return _worth(max(held, default=0))
    if any(slot.task is None for slot in idle):
        return 0
    return _worth(min(idle, key=lambda slot: slot.task or 0).used)


def kept(record: Record | None, slots: int) -> bool:
    """Whether the turns through the proxy show that the prompts of one slot are kept in RAM."""
    if record is None or slots != 1:
        return False
    for before, turn, between in later_turns(record):
        prompt = before.prompt or 0
        if prompt <= CHEAP or (turn.reused or 0) < _ALL * prompt:
            continue
        if any((one.prompt or 0) > prompt / 2 for one in between):  # it may hold what was reused
            continue
        if any(_had_the_slot(one, before, turn) for one in between):
            return True
    return False


def later_turns(
    record: Record,
) -> Iterator[tuple[SeenExchange, SeenExchange, Sequence[SeenExchange]]]:
    """Yield each measured turn: the turn before, the turn, and what ended between the two."""
    measured = [one for one in record.seen if one.prompt is not None and not one.failed]
    last: dict[tuple[str, str], int] = {}
    for index, one in enumerate(measured):
        if one.side:
            continue
        before = last.get((one.client, one.session))
        last[one.client, one.session] = index
        if before is not None and one.turn > 1 and one.reused is not None:
            yield measured[before], one, measured[before + 1 : index]


def _had_the_slot(one: SeenExchange, before: SeenExchange, turn: SeenExchange) -> bool:
    """Whether a prompt unlike that of ``before`` was worked on between it and ``turn``."""
    is_between = before.end <= one.wall and one.end <= turn.wall
    is_unlike = one.reused is not None and one.reused <= ALIKE * min(
        one.prompt or 0, before.prompt or 0
    )
    return is_between and is_unlike


def _worth(held: int) -> int:
    return held if held > CHEAP else 0
