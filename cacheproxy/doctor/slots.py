"""llama-server's slots: what they cost the conversations, and what a test prompt would push out.

Measured with llama.cpp (xllamacpp 2026.10) on five turns of a conversation of 14,000 tokens with
titles and forks between them: 11,478 tokens evaluated with its defaults, 1,607 (no more than is
new) with ``--slot-prompt-similarity 0.5``; 70,564 with one slot and ``--cache-ram 0``. Without a
RAM cache, 0.5 with four slots halves it (31,515 to 15,678). Fewer or split slots alone change
nothing (31,515 with ``--parallel 2 --no-kv-unified``).

A prompt unlike all others goes to a slot that was never used, else to the one used longest ago;
what that one held is gone, unless the RAM cache (``--cache-ram``) has taken it. No page tells
whether that is on. Where slots share one memory its profile shows it.
On a server with one slot it shows in the turns that went through the proxy: one reused all of the
turn before although another prompt had had the slot meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cacheproxy.asking import Site
from cacheproxy.client_setup.finding import Finding, ok, warn
from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.servers.kinds import EXAMPLE, kind_called
from cacheproxy.core.servers.looking import profile_from_look
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.servers.status import Slot
from cacheproxy.doctor import upstream
from cacheproxy.doctor.record import Record, SeenExchange
from cacheproxy.doctor.reuse import Trial
from cacheproxy.words import counted

CHEAP = 1000
"""Tokens that a server reads again in no time; our own prompts are shorter, too."""
_OURS = 2000
"""Tokens of our prompts in all the slots that they can be in at a time."""
_ALL = 0.9
_NEAR = 256
"""Tokens: what is left of a conversation is what the other prompt shared, give or take these."""
Ask = Callable[[str], bool]
"""Asks people whether to send, with the reason not to."""


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
    is_unlike = one.reused is not None and one.reused <= EXAMPLE.similarity * min(
        one.prompt or 0, before.prompt or 0
    )
    return is_between and is_unlike


def _worth(held: int) -> int:
    return held if held > CHEAP else 0


def check(record: Record | None, trials: Sequence[Trial]) -> list[Finding]:
    """Return what the proxy's record and our own prompts tell of a llama-server's slots."""
    forks, taken, dropped, lost = 0, 0, 0, 0
    for before, turn, between in later_turns(record) if record is not None else ():
        if turn.verdict != Judgement.BREAK or turn.reason != Reason.EVICTED:
            continue
        again = max(0, (before.prompt or 0) - (turn.reused or 0))
        if any(_took(one, turn) for one in between):
            forks, taken = forks + 1, taken + again
        else:
            dropped, lost = dropped + 1, lost + again
    found = []
    if forks:
        text = (
            f"{counted(forks, 'time')} a side request (a subagent, a fork) took the slot of a "
            f"conversation, because 10% of it was alike: {taken:,} tokens were read again"
        )
        fix = f"start {EXAMPLE.name} with {EXAMPLE.slots}"
        found.append(warn("slots", text, fix))
    return found + _ram(trials, dropped, lost)


def _ram(trials: Sequence[Trial], dropped: int, lost: int) -> list[Finding]:
    """Return the finding on the cache in RAM; our own prompts prove more than a turn's loss."""
    shown = [trial.again.is_reused for trial in trials if trial.again is not None]
    fix = f"start {EXAMPLE.name} with {EXAMPLE.ram}"
    cost = f"; {counted(dropped, 'turn')} read {lost:,} tokens again" if dropped else ""
    if shown and not shown[0]:
        text = f"off: a slot's prompt is lost when another conversation takes the slot{cost}"
        return [warn("cache-ram", text, fix)]
    if dropped:
        text = f"off, or too small: the server had dropped earlier prompts{cost}"
        return [warn("cache-ram", text, fix)]
    if shown:
        return [ok("cache-ram", "on: a prompt that leaves its slot is kept and comes back")]
    return []


def _took(one: SeenExchange, turn: SeenExchange) -> bool:
    """Whether ``turn`` found no more of its conversation than ``one`` had in common with it."""
    if one.reused is None or turn.reused is None or one.reused < _NEAR:
        return False
    return (
        one.reused >= EXAMPLE.similarity * (one.prompt or 0) and turn.reused <= one.reused + _NEAR
    )


@dataclass(slots=True)
class Guard:
    """Looks at the server's slots before each prompt: none pushes out a conversation unasked."""

    site: Site  #: the server
    profile: Profile  #: what is known of the server
    record: Record | None  #: of the proxy before it
    ask: Ask | None  #: None: whatever it costs, send
    finding: Finding | None = None  #: what is to be told if a prompt was not sent
    ours: int = 0  #: tokens of our own prompt, 0 if not counted: what is no longer costs no more

    def allows(self, ours: int = 0) -> bool:
        """Return whether the next prompt, unlike those before, may be sent; it may ask people.

        ``ours``: tokens of those that were, 0 if none was.
        """
        server = self.profile.server
        self.ours = max(self.ours, ours)
        if self.ask is None or server is None or not kind_called(server.kind).similarity:
            return True
        look = upstream.look(self.site).look
        slots = look.slots if look is not None else ()
        self.profile = profile_from_look(look, self.profile) if look is not None else self.profile
        keeps = bool(self.profile.memory.has_ram) or kept(self.record, len(slots))
        stake = at_stake(slots, keeps=keeps)
        if stake is not None and stake <= self.ours:
            return True
        why = _why(stake, len(slots))
        if self.ask(f"About to send test prompts of 600 tokens; {why}."):
            self.ask = None
            return True
        fix = "cacheproxy doctor --send   sends them anyway"
        self.finding = warn("reuse", f"test prompts were not sent: {why}", fix)
        return False


def _why(stake: int | None, slots: int) -> str:
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
