"""What llama-server's slots cost the conversations, and the setting that helps.

Measured with llama.cpp (xllamacpp 2026.10) on five turns of a conversation of 14,000 tokens with
titles and forks between them: 11,478 tokens evaluated with its defaults, 1,607 (no more than is
new) with ``--slot-prompt-similarity 0.5``; 70,564 with one slot and ``--cache-ram 0``. Without a
RAM cache, 0.5 with four slots halves it (31,515 to 15,678). Fewer or split slots alone change
nothing (31,515 with ``--parallel 2 --no-kv-unified``).
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.server.flags import RAM_CACHE, SIMILARITY
from cacheproxy.doctor.finding import Finding, FindingState
from cacheproxy.doctor.record import Record, SeenExchange
from cacheproxy.doctor.reuse import Trial
from cacheproxy.doctor.room import ALIKE, later_turns
from cacheproxy.words import counted

_NEAR = 256
"""Tokens: what is left of a conversation is what the other prompt shared, give or take these."""


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
        fix = f"start llama-server with {SIMILARITY.flag}"
        found.append(Finding("slots", FindingState.WARN, text, fix))
    return found + _ram(trials, dropped, lost)


def _ram(trials: Sequence[Trial], dropped: int, lost: int) -> list[Finding]:
    """Return the finding on the cache in RAM; our own prompts prove more than a turn's loss."""
    shown = [trial.again.is_reused for trial in trials if trial.again is not None]
    fix = f"start llama-server with {RAM_CACHE.flag}"
    cost = f"; {counted(dropped, 'turn')} read {lost:,} tokens again" if dropped else ""
    if shown and not shown[0]:
        text = f"off: a slot's prompt is lost when another conversation takes the slot{cost}"
        return [Finding("cache-ram", FindingState.WARN, text, fix)]
    if dropped:
        text = f"off, or too small: the server had dropped earlier prompts{cost}"
        return [Finding("cache-ram", FindingState.WARN, text, fix)]
    if shown:
        return [
            Finding(
                "cache-ram",
                FindingState.OK,
                "on: a prompt that leaves its slot is kept and comes back",
            )
        ]
    return []


def _took(one: SeenExchange, turn: SeenExchange) -> bool:
    """Whether ``turn`` found no more of its conversation than ``one`` had in common with it."""
    if one.reused is None or turn.reused is None or one.reused < _NEAR:
        return False
    return one.reused >= ALIKE * (one.prompt or 0) and turn.reused <= one.reused + _NEAR
