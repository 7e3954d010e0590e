"""A request to one server, with the facts that decide its order there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.kinds.profile import Shares


@dataclass(eq=False, slots=True)
class Ask:
    """A request to one server, with the facts that decide its order there."""

    owner: Hashable = b""  #: digest of the person who sent it
    conversation: Hashable = ""  #: its conversation
    lane: int = 0  #: number of its lane, a chain of prompts of which each extends the one before
    root: Hashable = None  #: the conversation that its own works for as a subagent; None: none
    names_agents: bool = False  #: whether its client names the conversation that another works for
    head: Any = None  #: its prompt's head, equal for prompts that begin with the same bytes
    share: float = 0.0  #: the head's share of the prompt, by characters
    is_read: bool = False  #: whether the server had the head before the running requests
    head_seconds: float | None = None  #: seconds to read the head; None: it waits for no head
    seconds: float | None = None  #: seconds to read the whole prompt, if nothing is reused
    tokens: float = 0.0  #: tokens of the whole prompt
    has_copy: bool = False  #: whether a copy of its head was free when it was sent
    label: str = ""  #: the conversation's name for users
    since: float = 0.0  #: when it came, in seconds of a monotonic clock
    until: float | None = None  #: when it goes at the latest; None: it has not waited
    waits_for: Ask | None = None  #: the request that it waits for
    more: int = 0  #: number of further requests that have what it waits for
    pause: float | None = None  #: seconds since its conversation's last answer, None if not known
    was_taken: bool = False  #: whether another conversation had taken its place before
    beside: Shares | None = None
    """The sharing that a reuse of its head proves, as it was sent beside requests with the head."""

    @property
    def key(self) -> tuple[Hashable, int]:
        """The conversation and its lane: what has a place, or a copy of a head, at the server."""
        return self.conversation, self.lane

    def is_kin(self, other: Ask) -> bool:
        """Whether both have one conversation, or one works for the other's, and may wait for it."""
        mine, theirs = self.conversation, other.conversation
        return mine in (theirs, other.root) or theirs == self.root
