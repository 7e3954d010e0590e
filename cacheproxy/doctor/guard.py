"""Which conversation a test prompt would push out of llama-server's slots, and whether to send it.

A prompt unlike all others goes to a slot that was never used, else to the one used longest ago;
that slot's own prompt is gone then, unless the RAM cache (``--cache-ram``) has taken it. No page
shows whether that cache is on. Where slots share one memory, the server's profile shows it. On a
server with one slot, turns that went through the proxy show it: one reused all of the turn before
although another prompt had had the slot meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.looking import profile_from_look
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.kinds.status import Slot
from cacheproxy.doctor.facts import look_at_server
from cacheproxy.doctor.record import Record
from cacheproxy.http_client import Site
from cacheproxy.record.exchange import Exchange
from cacheproxy.words import counted

CHEAP = 1000  #: tokens that a server reads again in no time; our own prompts are shorter, too
_OURS = 2000  #: tokens of our own prompts at a time, in all slots that they can be in
_ALL = 0.9
Ask = Callable[[str], bool]
"""A function that asks people whether to send; its argument is the reason not to."""


def at_stake(slots: Sequence[Slot], *, keeps: bool) -> int | None:
    """Return the tokens that the next prompt may push out, 0 if few; None if no slots are reported.

    ``keeps``: whether a prompt that is pushed out is known to stay in RAM.
    """
    if keeps:
        return 0
    if not slots:
        return None
    held = [slot.used for slot in slots]
    idle = [slot for slot in slots if not slot.busy]
    is_full = len(slots) > 1 and sum(held) + _OURS > slots[0].context
    if is_full or not idle:  # a shared memory is freed, or the first slot that becomes free is used
        most = max(held)
    elif any(slot.task is None for slot in idle):
        return 0
    else:
        most = min(idle, key=lambda slot: slot.task or 0).used
    return most if most > CHEAP else 0


def prompts_stay(record: Record, slots: int, alike: float) -> bool:
    """Return whether the turns through the proxy show that the prompts of one slot stay in RAM.

    ``alike``: share of a prompt, common with the slot's, from which on the two are alike.
    """
    if slots != 1:
        return False
    measured = [one for one in record.rows if one.usage.prompt is not None and not one.went_wrong]
    last: dict[Session | None, int] = {}
    for index, turn in enumerate(measured):
        if turn.side:
            continue
        at = last.get(turn.session)
        last[turn.session] = index
        if at is None or turn.turn <= 1:
            continue
        before, between = measured[at], measured[at + 1 : index]
        prompt = before.usage.prompt or 0
        if prompt <= CHEAP or (turn.usage.reused or 0) < _ALL * prompt:
            continue
        # One of them may have the tokens that were reused.
        if any((one.usage.prompt or 0) > prompt / 2 for one in between):
            continue
        if any(_had_the_slot(one, before, turn, alike) for one in between):
            return True
    return False


def _had_the_slot(one: Exchange, before: Exchange, turn: Exchange, alike: float) -> bool:
    """Return whether ``one``, a prompt unlike ``before``, ran between ``before`` and ``turn``."""
    is_between = before.ended <= one.wall and one.ended <= turn.wall
    is_unlike = one.usage.reused is not None and one.usage.reused <= alike * min(
        one.usage.prompt or 0, before.usage.prompt or 0
    )
    return is_between and is_unlike


@dataclass(slots=True)
class Guard:
    """Checks the server's slots before each prompt: none pushes out a conversation unasked."""

    site: Site  #: the server
    profile: Profile  #: the knowledge of the server
    record: Record  #: the record of the proxy before it
    ask: Ask | None  #: asks people; None to send at any cost
    why_not: str = ""  #: why a prompt was not sent; "" if each was

    def allows(self, ours: int = 0) -> bool:
        """Return whether the next prompt, unlike those before, may be sent; may ask people.

        The slots are read first. A yes holds for all later prompts; for a no, ``why_not`` is set.
        ``ours``: tokens of the longest test prompt so far, 0 for none: replacing it costs no more.
        """
        alike = kind_of(self.profile).reuse.similarity
        if self.ask is None or not alike:
            return True
        look = look_at_server(self.site).look
        slots = look.slots if look is not None else ()
        self.profile = profile_from_look(look, self.profile) if look is not None else self.profile
        keeps = bool(self.profile.memory.has_ram) or prompts_stay(self.record, len(slots), alike)
        stake = at_stake(slots, keeps=keeps)
        if stake is not None and stake <= ours:
            return True
        why = _why(stake, len(slots))
        if self.ask(f"About to send test prompts of 600 tokens; {why}."):
            self.ask = None
            return True
        self.why_not = why
        return False


def _why(stake: int | None, slots: int) -> str:
    """Return why a prompt may do harm; ``stake``: tokens that it may push out, None: unknown."""
    if stake is None:
        return (
            "the server does not tell what its slots hold (--no-slots, or a key), and the test "
            "prompts may push out a conversation"
        )
    whose = "the only slot holds" if slots == 1 else f"the {counted(slots, 'slot')} hold up to"
    return (
        f"{whose} a conversation of {stake:,} tokens, and the test prompts may push it out. The "
        "server does not tell whether it keeps such a conversation (--cache-ram), so the next "
        "turn may be slow"
    )
