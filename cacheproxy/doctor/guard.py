"""Whether a test prompt may be sent: doctor pushes no conversation out without being told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cacheproxy.asking import Site
from cacheproxy.core.server.profile import Profile
from cacheproxy.core.server.telling import told
from cacheproxy.doctor import room, upstream
from cacheproxy.doctor.finding import Finding, FindingState
from cacheproxy.doctor.record import Record
from cacheproxy.words import counted

Ask = Callable[[str], bool]
"""Asks people whether to send, with the reason not to."""


@dataclass(slots=True)
class Guard:
    """Looks at the server's slots before each prompt. ``ask`` None: whatever it costs, send.

    ``profile``: what is known of the server. ``finding``: what is to be told if a prompt was not
    sent. ``ours``: tokens of our own prompt, where it has been counted: what is no longer costs no
    more than it does.
    """

    site: Site
    profile: Profile
    record: Record | None
    ask: Ask | None
    finding: Finding | None = None
    ours: int = 0

    def allows(self, ours: int = 0) -> bool:
        """Return whether the next prompt, unlike those before, may be sent; it may ask people.

        ``ours``: tokens of those that were, 0 if none was.
        """
        server = self.profile.server
        self.ours = max(self.ours, ours)
        if self.ask is None or server is None or server.kind != upstream.LLAMA:
            return True
        look = upstream.look(self.site).look
        slots = look.slots if look is not None else ()
        self.profile = told(look, self.profile) if look is not None else self.profile
        keeps = bool(self.profile.memory.has_ram) or room.kept(self.record, len(slots))
        stake = room.at_stake(slots, keeps=keeps)
        if stake is not None and stake <= self.ours:
            return True
        why = _why(stake, len(slots))
        if self.ask(f"About to send test prompts of 600 tokens; {why}."):
            self.ask = None
            return True
        fix = "cacheproxy doctor --send   sends them anyway"
        self.finding = Finding(
            "reuse", FindingState.WARN, f"test prompts were not sent: {why}", fix
        )
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
