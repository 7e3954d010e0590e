"""Whether a test prompt may be sent: doctor pushes no conversation out without being told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cacheproxy.asking import Site
from cacheproxy.doctor import room
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.load import slots_at
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.upstream import LLAMA, Upstream
from cacheproxy.words import counted

Ask = Callable[[str], bool]
"""Asks people whether to send, with the reason not to."""


@dataclass(slots=True)
class Guard:
    """Looks at the server's slots before each prompt. ``ask`` None: whatever it costs, send.

    ``finding``: what is to be told if a prompt was not sent. ``ours``: tokens of our own prompt,
    where it has been counted: what is no longer costs no more than it does.
    """

    site: Site
    server: Upstream
    record: Record | None
    ask: Ask | None
    finding: Finding | None = None
    ours: int = 0

    def allows(self, ours: int = 0) -> bool:
        """Return whether the next prompt, unlike those before, may be sent; it may ask people.

        ``ours``: tokens of those that were, 0 if none was.
        """
        server = self.server.server
        self.ours = max(self.ours, ours)
        if self.ask is None or server is None or server.kind != LLAMA:
            return True
        load = replace(self.server.load, slots=slots_at(self.site))
        stake = room.at_stake(load, keeps=room.kept(self.record, load))
        if stake is not None and stake <= self.ours:
            return True
        why = _why(stake, len(load.slots or ()))
        if self.ask(f"About to send test prompts of 600 tokens; {why}."):
            self.ask = None
            return True
        fix = "cacheproxy doctor --send   sends them anyway"
        self.finding = Finding("reuse", State.WARN, f"test prompts were not sent: {why}", fix)
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
