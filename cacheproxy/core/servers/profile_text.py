"""A profile as plain values, for files and pages, and in words for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from cacheproxy.core.servers.profile import MemoryKind, Profile, Reporting, Thinking

Json = dict[str, Any]
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
    memory = "; ".join([*_memory(profile), *_reporting(profile)])
    rendering = re.sub("^it ", "the template ", "; ".join(_template(profile)))
    return {name: text for name, text in (("memory", memory), ("rendering", rendering)) if text}


def _memory(profile: Profile) -> Iterator[str]:
    memory = profile.memory
    if profile.reuses is False:
        yield "the server reuses nothing"
        return
    if memory.kind in _MEMORY and (memory.kind is not MemoryKind.BLOCKS or memory.block):
        text = _MEMORY[memory.kind].format(block=memory.block or 0)
        yield text + (", except the last one" if memory.is_hybrid else "")
    if memory.slots and memory.slots > 1 and memory.is_unified is not None:
        shared = "share one memory" if memory.is_unified else "each have their own memory"
        yield f"{memory.slots} slots {shared}"
    if memory.has_ram:
        yield "a prompt that leaves its slot is kept in RAM"


def _reporting(profile: Profile) -> Iterator[str]:
    if profile.reuses is False or profile.reporting not in _REPORTING:
        return
    text = _REPORTING[profile.reporting].format(flag=profile.flag or "a flag")
    if profile.counts_reuse and profile.reporting is not Reporting.ALWAYS:
        text += "; its metrics count it"
    yield text


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
