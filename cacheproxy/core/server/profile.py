"""Profile: what is known of an upstream, as one value.

A server's cache depends on the prompt that it renders and on its memory. Its pages or its answers
show how it treats both; ``told_by`` says which of the two. Verdicts and advice use the profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cacheproxy.core.placement.placement import Placement
from cacheproxy.core.prompt.prompt import Order
from cacheproxy.core.server.identify import Server


class Thinking(StrEnum):
    """What a template does with the reasoning of turns that have ended.

    ``ON_REQUEST``: dropped, unless a request's ``chat_template_kwargs`` ask to keep it.
    """

    KEPT = "kept"
    DROPPED = "dropped"
    ON_REQUEST = "kept on request"
    NEVER_SHOWN = "never rendered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Thoughts:
    """How reasoning fares.

    ``asked_by``: the member of chat_template_kwargs that keeps it, and its value;
    ``writes_empty``: an empty block is written where there was none, and goes with the turn's end.
    """

    way: Thinking = Thinking.UNKNOWN
    asked_by: tuple[str, bool] | None = None
    writes_empty: bool = False


class Kind(StrEnum):
    """How a server's memory of a prompt can be gone back in.

    ``REWINDABLE``: to any token. ``CHECKPOINTED``: only to places that were saved (hybrid and
    recurrent models, sliding windows). ``BLOCKS``: to the end of a whole block.
    """

    REWINDABLE = "rewindable"
    CHECKPOINTED = "checkpointed"
    BLOCKS = "blocks"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Memory:
    """What holds the prompts; None for what is not told.

    ``block``: tokens of a block; ``is_hybrid``: the last whole block is never reused. ``slots``:
    how many; ``is_unified``: whether they share one memory; ``has_ram``: whether what leaves a
    slot is kept in RAM; ``context``: tokens of one slot's context; ``capacity``: tokens in all.
    """

    kind: Kind = Kind.UNKNOWN
    block: int | None = None
    is_hybrid: bool = False
    slots: int | None = None
    is_unified: bool | None = None
    has_ram: bool | None = None
    context: int | None = None
    capacity: int | None = None

    def whole(self, prompt: int) -> int:
        """Return how many of ``prompt`` tokens can be reused: the last is always computed anew."""
        size = self.block or 1
        return max(0, ((prompt - 1) // size - self.is_hybrid) * size)


class Reporting(StrEnum):
    """When a server's answers say how much of a prompt was reused.

    ``FLAGGED``: only since it was started with a flag; ``WHEN_SOME``: not where it is nothing.
    """

    ALWAYS = "always"
    FLAGGED = "with a flag"
    WHEN_SOME = "when there is some"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one upstream and the model that it serves.

    ``order``: what its template prints first, None for not known; ``tools_last``,
    ``system_last``: the tools, or the system text, stand in the last user message; ``clock``: what
    the template prints of it, "the date" or "the time" ("" for nothing). ``page``: where it
    renders a conversation for us ("" for nowhere). ``reuses``: whether it ever reuses anything.
    ``counts_reuse``: its /metrics count reused tokens. ``flag``: what to start it with so that it
    reports reuse. ``start``: another after a restart.
    """

    server: Server | None = None
    placement: Placement | None = None
    thoughts: Thoughts = Thoughts()
    order: Order | None = None
    tools_last: bool = False
    system_last: bool = False
    clock: str = ""
    page: str = ""
    memory: Memory = Memory()
    reporting: Reporting = Reporting.UNKNOWN
    flag: str = ""
    counts_reuse: bool = False
    reuses: bool | None = None
    start: str | None = None
    told_by: str = ""


UNKNOWN = Profile()
"""Of an upstream that nobody has asked."""
