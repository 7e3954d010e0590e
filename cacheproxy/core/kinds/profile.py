"""The profile: all facts known of an upstream, as one value.

A server's cache depends on the prompt that it renders and on its memory. Its pages or its answers
show its treatment of both; ``told_by`` names the source. Verdicts and advice use the profile; files
and pages have it as plain values, users see it in words.
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
"""Name of a server whose software is not known."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts that the upstream reports about itself; None for those that it does not."""

    kind: str = UNKNOWN_KIND  #: name of its software
    version: str | None = None  #: version, as it spells it
    model: str | None = None  #: the one model that it serves
    context: int | None = None  #: tokens of a context
    slots: int | None = None  #: number of prompts that it works on at a time

    @property
    def summary(self) -> str:
        """The facts in one line, for users."""
        parts = [f"{self.kind} {self.version}" if self.version else self.kind]
        if self.model:
            parts.append(self.model)
        if self.context:
            parts.append(f"{self.context:,} context")
        if self.slots:
            parts.append(f"{self.slots} slot{'s' if self.slots > 1 else ''}")
        return " · ".join(parts)


class Thinking(StrEnum):
    """A template's treatment of the reasoning of turns that have ended.

    ``ON_REQUEST``: dropped, unless a request's ``chat_template_kwargs`` ask to keep it.
    """

    KEPT = "kept"
    DROPPED = "dropped"
    ON_REQUEST = "kept on request"
    NEVER_SHOWN = "never rendered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ThinkingProfile:
    """A template's treatment of reasoning, in detail."""

    way: Thinking = Thinking.UNKNOWN  #: the treatment
    asked_by: tuple[str, bool] | None = None
    """The member of chat_template_kwargs by which reasoning is kept, and its value."""
    writes_empty: bool = False
    """Whether a turn without reasoning gets an empty block, which is dropped when the turn ends."""


class MemoryKind(StrEnum):
    """The points to which a server's memory of a prompt can be rewound.

    ``REWINDABLE``: any token. ``CHECKPOINTED``: only saved checkpoints (hybrid and recurrent
    models, sliding windows). ``BLOCKS``: the end of any whole block.
    """

    REWINDABLE = "rewindable"
    CHECKPOINTED = "checkpointed"
    BLOCKS = "blocks"
    UNKNOWN = "unknown"


class Shares(StrEnum):
    """The time from which the beginning of a running request's prompt serves other requests.

    ``READING``: while it is read. ``READ``: once it is read, during the answer. ``NEVER``: only
    after the answer has ended.
    """

    READING = "while it is read"
    READ = "once it is read"
    NEVER = "not while both run"


@dataclass(frozen=True, slots=True)
class Memory:
    """A server's memory for prompts; None for facts that it does not report."""

    kind: MemoryKind = MemoryKind.UNKNOWN  #: the points to which it can be rewound
    block: int | None = None  #: tokens of a block
    is_hybrid: bool = False  #: whether the last whole block is never reused
    slots: int | None = None  #: number of slots
    is_unified: bool | None = None  #: whether the slots share one memory
    has_ram: bool | None = None  #: whether prompts that leave a slot are saved in RAM
    context: int | None = None  #: tokens of one slot's context
    capacity: int | None = None  #: tokens in all

    def whole(self, prompt: int) -> int:
        """Return the number of ``prompt`` tokens that can be reused: the last one never is."""
        size = self.block or 1
        return max(0, ((prompt - 1) // size - self.is_hybrid) * size)


class Reporting(StrEnum):
    """The answers in which a server reports the reused tokens of a prompt.

    ``FLAGGED``: all, if it was started with a flag. ``WHEN_SOME``: those with any reused tokens.
    """

    ALWAYS = "always"
    FLAGGED = "with a flag"
    WHEN_SOME = "when there is some"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts known of one upstream and the model that it serves."""

    server: ServerFacts | None = None  #: facts that it reports about itself
    placement: Placement | None = None  #: its treatment of late system messages
    thoughts: ThinkingProfile = ThinkingProfile()  #: its template's treatment of reasoning
    order: PromptOrder | None = None  #: the part that its template prints first; None: not known
    tools_last: bool = False  #: whether the template puts the tools in the last user message
    system_last: bool = False  #: the same for the system text
    clock: str = ""  #: "the date" or "the time" if the template prints it, else ""
    page: str = ""  #: path of the page that renders a conversation, "" for none
    memory: Memory = Memory()  #: its memory for prompts
    reporting: Reporting = Reporting.UNKNOWN  #: the answers in which it reports reused tokens
    flag: str = ""  #: command-line flag with which it reports them
    counts_reuse: bool = False  #: whether its /metrics have a counter of reused tokens
    counter_moves: bool = False  #: whether that was seen to rise: one that never does is no proof
    reuses: bool | None = None  #: whether it ever reuses anything; None: not known
    start: str | None = None  #: mark of its start, which changes with every restart
    told_by: str = ""  #: sources of all this, for users
    grounds: str = ""  #: evidence for the belief about its memory, for users


UNKNOWN = Profile()
"""The profile of an upstream of which nothing was learned yet."""
_OF_TEMPLATE = ("placement", "thoughts", "order", "tools_last", "system_last", "clock")
"""Fields of a Profile that come from the rendering page."""


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
    """Return ``profile`` as JSON values, without unknown ones."""
    found: Json = _without_defaults(profile)
    return found


def profile_in(value: Any) -> Profile | None:
    """Return the profile that ``plain`` turned into ``value``; None if there is none.

    Another version of the proxy may have written other values.
    """
    try:
        return msgspec.convert(value, Profile)
    except ValueError:
        return None


def for_people(profile: Profile) -> Json:
    """Return the profile for a page, which shows server and placement elsewhere."""
    found = plain(profile)
    found.pop("server", None)
    found.pop("placement", None)
    return {**found, "says": described(profile)}


def described(profile: Profile) -> dict[str, str]:
    """Return one line about the memory and its reporting, one about the template, if known."""
    memory = "; ".join(_memory(profile))
    rendering = re.sub("^it ", "the template ", "; ".join(_template(profile)))
    return {name: text for name, text in (("memory", memory), ("rendering", rendering)) if text}


def with_template(profile: Profile, found: Sequence[Profile]) -> Profile:
    """Return ``profile`` with the template's fields of ``found``, one Profile for each model.

    They are added only if all models have the same.
    """
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
    """Return the fields of a dataclass that differ from their defaults, as plain values."""
    if not is_dataclass(value):
        return msgspec.to_builtins(value)
    return {
        each.name: _without_defaults(found)
        for each in fields(value)
        if (found := getattr(value, each.name)) is not None and found != each.default
    }
