"""Profile: what is known of an upstream, as one value.

A server's cache depends on the prompt that it renders and on its memory. Its pages or its answers
show how it treats both; ``told_by`` says which of the two. Verdicts and advice use the profile;
files and pages have it as plain values, people in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from cacheproxy.core.kinds.placement import Placement
from cacheproxy.core.prompt.prompt import PromptOrder

UNKNOWN_KIND = "model server"
"""What a server is called that does not tell what it is."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is known of the upstream; None where it does not say."""

    kind: str = UNKNOWN_KIND  #: what software it is
    version: str | None = None  #: as it spells it
    model: str | None = None  #: the one that it serves
    context: int | None = None  #: tokens
    slots: int | None = None  #: how many prompts it holds at a time

    @property
    def summary(self) -> str:
        """One line for people."""
        parts = [f"{self.kind} {self.version}" if self.version else self.kind]
        if self.model:
            parts.append(self.model)
        if self.context:
            parts.append(f"{self.context:,} context")
        if self.slots:
            parts.append(f"{self.slots} slot{'s' if self.slots > 1 else ''}")
        return " · ".join(parts)


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
class ThinkingProfile:
    """How reasoning fares."""

    way: Thinking = Thinking.UNKNOWN  #: what the template does with it
    asked_by: tuple[str, bool] | None = None
    """The member of chat_template_kwargs that keeps it, and its value."""
    writes_empty: bool = False
    """An empty block is written where there was none, and goes with the turn's end."""


class MemoryKind(StrEnum):
    """How a server's memory of a prompt can be gone back in.

    ``REWINDABLE``: to any token. ``CHECKPOINTED``: only to places that were saved (hybrid and
    recurrent models, sliding windows). ``BLOCKS``: to the end of a whole block.
    """

    REWINDABLE = "rewindable"
    CHECKPOINTED = "checkpointed"
    BLOCKS = "blocks"
    UNKNOWN = "unknown"


class Shares(StrEnum):
    """When a server gives one request the beginning of a prompt that it reads for another.

    ``READING``: while it reads that one. ``READ``: once it has, and answers. ``NEVER``: not before
    that answer has ended.
    """

    READING = "while it is read"
    READ = "once it is read"
    NEVER = "not while both run"


@dataclass(frozen=True, slots=True)
class Memory:
    """What holds the prompts; None for what is not told."""

    kind: MemoryKind = MemoryKind.UNKNOWN  #: how it can be gone back in
    block: int | None = None  #: tokens of a block
    is_hybrid: bool = False  #: the last whole block is never reused
    slots: int | None = None  #: how many
    is_unified: bool | None = None  #: whether the slots share one memory
    has_ram: bool | None = None  #: whether what leaves a slot is kept in RAM
    context: int | None = None  #: tokens of one slot's context
    capacity: int | None = None  #: tokens in all

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
    """What is known of one upstream and the model that it serves."""

    server: ServerFacts | None = None  #: what it says of itself
    placement: Placement | None = None  #: what it does with late system messages
    thoughts: ThinkingProfile = ThinkingProfile()  #: what becomes of reasoning
    order: PromptOrder | None = None  #: what its template prints first; None: not known
    tools_last: bool = False  #: the tools stand in the last user message
    system_last: bool = False  #: the system text stands in the last user message
    clock: str = ""  #: what the template prints of it: "the date", "the time", "" for nothing
    page: str = ""  #: where it renders a conversation for us, "" for nowhere
    memory: Memory = Memory()  #: what holds its prompts
    reporting: Reporting = Reporting.UNKNOWN  #: whether its answers say what was reused
    flag: str = ""  #: what to start it with so that it reports reuse
    counts_reuse: bool = False  #: its /metrics count reused tokens
    counter_moves: bool = False  #: that count was seen to rise: one that never does proves nothing
    reuses: bool | None = None  #: whether it ever reuses anything; None: not known
    start: str | None = None  #: another after a restart
    told_by: str = ""  #: how this is known, for people
    grounds: str = ""  #: the evidence for what is thought of the memory, for people


UNKNOWN = Profile()
"""Of an upstream that nobody has asked."""
_OF_TEMPLATE = ("placement", "thoughts", "order", "tools_last", "system_last", "clock")
"""The fields of a Profile that a template's page tells."""


_THINKING = {
    Thinking.KEPT: "the template keeps the thinking of earlier turns",
    Thinking.DROPPED: "the template drops the thinking of a turn at the next user message",
    Thinking.ON_REQUEST: "the template drops the thinking of a turn at the next user message, "
    "unless chat_template_kwargs contain {keeper}",
    Thinking.NEVER_SHOWN: "the template leaves thinking out",
}
_MEMORY = {
    MemoryKind.REWINDABLE: "the server can go back to any token of a prompt",
    MemoryKind.CHECKPOINTED: "the server can only go back to its checkpoints",
    MemoryKind.BLOCKS: "the server reuses whole blocks of {block:,} tokens",
}
_REPORTING = {
    Reporting.ALWAYS: "the server always reports reuse",
    Reporting.FLAGGED: "the server reports reuse only with {flag}",
    Reporting.WHEN_SOME: "the server reports reuse only where there is some",
    Reporting.NEVER: "the server never reports reuse",
}


def plain(profile: Profile) -> Json:
    """Return ``profile`` as values that JSON can spell, without what is not known."""
    found: Json = _without_defaults(profile)
    return found


def profile_in(value: Any) -> Profile | None:
    """Return the profile that ``plain`` made such values of; None for any others.

    Another version may have other words.
    """
    try:
        return msgspec.convert(value, Profile)
    except ValueError:
        return None


def for_people(profile: Profile) -> Json:
    """Return what a page says besides who the server is and where late messages stand."""
    found = plain(profile)
    found.pop("server", None)
    found.pop("placement", None)
    return {**found, "says": says(profile)}


def says(profile: Profile) -> dict[str, str]:
    """Return what is known in a line each: of the memory and its reporting, of the template."""
    memory = "; ".join(_memory(profile))
    rendering = re.sub("^it ", "the template ", "; ".join(_template(profile)))
    return {name: text for name, text in (("memory", memory), ("rendering", rendering)) if text}


def with_template(profile: Profile, found: Sequence[Profile]) -> Profile:
    """Return ``profile`` with what its template told of each model: what holds for all."""
    last = found[-1]
    told_by = ", ".join(filter(None, (profile.told_by, last.page)))
    profile = replace(profile, page=last.page, told_by=told_by)
    known = [{name: getattr(one, name) for name in _OF_TEMPLATE} for one in found]
    return replace(profile, **known[-1]) if all(one == known[-1] for one in known) else profile


def _memory(profile: Profile) -> Iterator[str]:
    memory = profile.memory
    if profile.reuses is False:
        yield "the server reuses nothing"
        return
    if memory.kind in _MEMORY and (memory.kind is not MemoryKind.BLOCKS or memory.block):
        text = _MEMORY[memory.kind].format(block=memory.block or 0)
        text += ", except the last one" if memory.is_hybrid else ""
        yield f"{text} ({profile.grounds})" if profile.grounds else text
    if memory.slots and memory.slots > 1 and memory.is_unified is not None:
        shared = "share one memory" if memory.is_unified else "each have their own memory"
        yield f"{memory.slots} slots {shared}"
    if memory.has_ram:
        yield "a prompt that leaves its slot is kept in RAM"
    if profile.reporting in _REPORTING:
        yield _REPORTING[profile.reporting].format(flag=profile.flag or "a flag")
        if profile.counts_reuse and profile.reporting is not Reporting.ALWAYS:
            still = "" if profile.counter_moves else ", but that count has not moved yet"
            yield f"its metrics count it{still}"


def _template(profile: Profile) -> Iterator[str]:
    thoughts = profile.thoughts
    if thoughts.way in _THINKING:
        name, value = thoughts.asked_by or ("", False)
        yield _THINKING[thoughts.way].format(keeper=f"{name}: {str(value).lower()}")
    if thoughts.writes_empty:
        yield "it writes an empty block where no thinking came back, until then"
    if profile.tools_last:
        yield "it writes the tools into the last user message"
    elif profile.order is not None:
        yield f"it prints the {'tools' if profile.order == 'tools first' else 'system text'} first"
    if profile.clock:
        yield "it prints the time"


def _without_defaults(value: Any) -> Any:
    """Return the fields of a dataclass that are not as they are when nothing is known."""
    if not is_dataclass(value):
        return msgspec.to_builtins(value)
    return {
        each.name: _without_defaults(found)
        for each in fields(value)
        if (found := getattr(value, each.name)) is not None and found != each.default
    }
