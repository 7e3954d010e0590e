"""Late system messages joined to their neighbours, for templates that require alternating roles.

Each text goes to the end of the user message before it (or of the tool result, if a user message
behind one is refused, or costs the turn's reasoning), otherwise to the beginning of the next user
message. A text between a tool call and its result goes to the end of the result. User messages in
a row become one, also without a late message between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.core.dialects.content import is_text
from cacheproxy.core.dialects.dialect import Json
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import to_pointer
from cacheproxy.core.kinds.placement import Placement
from cacheproxy.core.prompt.reminder import (
    BETWEEN,
    CLOSE,
    OPEN,
    is_all_text,
    is_wrapped,
    merged,
    text_in,
    wrapped,
    wrapped_blocks,
)

_JOINED = "joined with the message beside it"
WHY = "late system message sent as a user message, in its place"
"""Reason of exactly one edit for each placed message: the edits are counted by it."""
_MARKED = "marked as a reminder"
_JOINABLE = frozenset({"role", "content", "type", "id", "status", "images"})
"""Members that a user message may have, in any dialect."""


def join_late(
    items: Sequence[Json], moved: set[int], gone: set[int], placement: Placement, root: str
) -> Iterator[Edit]:
    """Yield the edits that join the messages with indexes in ``moved`` to their neighbours.

    ``items``: all messages, at the path ``root``. ``gone``: indexes of late ones without text,
    which are left out.
    """
    for run in _runs(items, moved, gone, placement):
        yield from _settle(run, items, moved, root)


@dataclass(slots=True)
class _Run:
    """Messages that become one, in their order."""

    home: int  #: index of the message that the others join
    is_result: bool = False  #: whether it ends with a tool's result
    changes: bool = False  #: whether a late message is among them, or more than one message
    before: list[int] = field(default_factory=list)
    """Indexes of messages whose text goes before that of ``home``."""
    behind: list[int] = field(default_factory=list)  #: indexes of messages with text behind it


def _runs(
    items: Sequence[Json], moved: set[int], gone: set[int], placement: Placement
) -> Iterator[_Run]:
    """Yield the runs of messages that become one, for all late messages and their neighbours."""
    run: _Run | None = None
    for index in range(len(items)) if placement.joins_user else _beside(moved, gone, len(items)):
        if index in gone:
            continue
        item = items[index]
        if run is not None and _joins(run, items, index, moved, placement):
            if run.home in moved and index not in moved and not items[run.home].get("images"):
                run.before, run.behind = [run.home, *run.behind], []
                run.home, run.is_result = index, ends_with_result(item)
            else:
                run.behind.append(index)
            run.changes = True
            continue
        if run is not None and run.changes:
            yield run
        run = None
        if index in moved:
            run = _Run(index, changes=True)
        elif _is_user(item) or _is_result(item):
            run = _Run(index, is_result=ends_with_result(item))
    if run is not None and run.changes:
        yield run


def _beside(moved: set[int], gone: set[int], count: int) -> list[int]:
    """Return the indexes of late messages and their neighbours: others need not be joined.

    Only if user messages in a row are accepted. ``count``: number of all messages.
    """
    found = set(moved)
    for number in moved:
        for step in (-1, 1):
            beside = number + step
            while beside in gone:
                beside += step
            if 0 <= beside < count:
                found.add(beside)
    return sorted(found)


def _joins(
    run: _Run, items: Sequence[Json], index: int, moved: set[int], placement: Placement
) -> bool:
    """Whether the message at ``index`` becomes one with the messages of ``run``."""
    item = items[index]
    if item.get("images"):  # Ollama's: they have no place in a text
        return False
    if index in moved:
        if run.is_result:
            return placement.joins_tool and is_all_text(item["content"])
        return placement.joins_user
    if _begins_with_result(item) and not _begins_with_result(items[run.home]):
        joined = [items[number] for number in (run.home, *run.behind)]
        if not all(is_all_text(one["content"]) and not one.get("images") for one in joined):
            return False
        if run.home in moved:
            return True
    return placement.joins_user and not run.is_result and _is_user(item)


def _settle(run: _Run, items: Sequence[Json], moved: set[int], root: str) -> Iterator[Edit]:
    """Yield the edits that make one message of ``run``: spans where texts meet, else all of it."""
    home, others = run.home, [*run.before, *run.behind]
    pointer, item = f"{root}/{home}", items[home]
    content = item.get("content")
    before, behind = run.before, run.behind
    if _begins_with_result(item):  # nothing comes between it and its call
        before, behind = [], others
    plain = all(_is_plain(items[n]["content"], is_late=n in moved) for n in others)
    if home in moved and plain and (not others or _has_text_at(content, -1)):
        yield from re_role(pointer, item, _texts(items, others, moved))
    elif home not in moved and run.is_result:
        if others:
            yield from _after_result(pointer, item, BETWEEN + _texts(items, others, moved))
    elif (
        home not in moved
        and plain
        and (not before or _has_text_at(content, 0))
        and (not behind or _has_text_at(content, -1))
    ):
        if before:
            yield _insert(pointer, content, 0, _texts(items, before, moved) + BETWEEN)
        if behind:
            yield _insert(pointer, content, -1, BETWEEN + _texts(items, behind, moved))
    elif others:
        numbers = [*before, home, *behind]
        contents = [_marked(items[n]["content"], is_late=n in moved) for n in numbers]
        yield Edit(f"{pointer}/content", merged(contents), _JOINED)
        if home in moved:
            yield from become_user(pointer, item)
    for number in others:
        yield Edit(f"{root}/{number}", REMOVE, WHY if number in moved else _JOINED)


def _after_result(pointer: str, item: Json, text: str) -> Iterator[Edit]:
    """Yield the edits that add ``text`` behind a tool's result, which stays as it is."""
    holder, key, owner = _result_of(item)
    place, value = f"{pointer}{holder}/{key}", owner.get(key)
    if isinstance(value, str):
        yield Edit(place, text, _JOINED, (len(value), len(value)))
    elif isinstance(value, list) and value and is_text(value[-1]):
        end = len(value[-1]["text"])
        yield Edit(f"{place}/{len(value) - 1}/text", text, _JOINED, (end, end))
    elif isinstance(value, list):
        kind = "input_text" if key == "output" else "text"
        yield Edit(place, [*value, {"type": kind, "text": text.lstrip()}], _JOINED)
    else:  # it returned nothing
        yield Edit(f"{pointer}{holder}", {**owner, key: text.lstrip()}, _JOINED)


def _result_of(item: Json) -> tuple[str, str, Json]:
    """Return the last result in ``item``: pointer to its block, member, and the block itself."""
    if item.get("type") == "function_call_output":
        return "", "output", item
    content = item.get("content")
    if item.get("role") == "tool":
        return "", "content", item
    assert isinstance(content, list)
    number = len(content) - 1
    return f"/content/{number}", "content", content[number]


def _insert(pointer: str, content: Any, end: int, text: str) -> Edit:
    """Return the edit that puts ``text`` before (0) or behind (-1) all text of ``content``."""
    place, value = f"{pointer}/content", content
    if isinstance(content, list):
        number = 0 if end == 0 else len(content) - 1
        place, value = f"{place}/{number}/text", content[number]["text"]
    at = 0 if end == 0 else len(value)
    return Edit(place, text, _JOINED, (at, at))


def _has_text_at(content: Any, end: int) -> bool:
    """Whether ``content`` begins (0) or ends (-1) with text."""
    return isinstance(content, str) or (bool(content) and is_text(content[end]))


def _is_plain(content: Any, *, is_late: bool) -> bool:
    """Whether ``content`` can join another message as a text; a user's own lists stay lists."""
    return is_all_text(content) if is_late else isinstance(content, str)


def _texts(items: Sequence[Json], numbers: Sequence[int], moved: set[int]) -> str:
    """Return the joined texts of the messages ``numbers``; late ones are marked."""
    texts = ((number, text_in(items[number]["content"])) for number in numbers)
    return BETWEEN.join(wrapped(text) if number in moved else text for number, text in texts)


def _marked(content: Any, *, is_late: bool) -> Any:
    """Return the content of one message for joining: marked if it ``is_late``."""
    if not is_late:
        return content
    return wrapped(text_in(content)) if is_all_text(content) else wrapped_blocks(content)


def _is_user(item: Json) -> bool:
    """Whether ``item`` is a user message that another one can join."""
    return item.get("role") == "user" and isinstance(item.get("content"), str | list)


def _is_result(item: Json) -> bool:
    """Whether ``item`` is a tool's result by itself, outside a user message."""
    if item.get("type") == "function_call_output":
        return isinstance(item.get("output"), str | list)
    return item.get("role") == "tool" and isinstance(item.get("content"), str | list)


def _begins_with_result(item: Json) -> bool:
    """Whether ``item`` begins with a tool's result."""
    return _is_result(item) or _is_result_block(item, 0)


def ends_with_result(item: Json) -> bool:
    """Whether ``item`` ends with a tool's result."""
    return _is_result(item) or _is_result_block(item, -1)


def _is_result_block(item: Json, end: int) -> bool:
    """Whether the first (0) or last (-1) block of ``item`` is a tool's result."""
    content = item.get("content")
    block = content[end] if isinstance(content, list) and content else None
    return isinstance(block, dict) and block.get("type") == "tool_result"


def re_role(pointer: str, item: Json, more: str = "") -> Iterator[Edit]:
    """Yield the edits to a user message with the same bytes of text; ``more``: appended text."""
    content = item["content"]
    texts = (
        [(f"{pointer}/content", content)]
        if isinstance(content, str)
        else [
            (f"{pointer}/content/{number}/text", block["text"])
            for number, block in enumerate(content)
            if is_text(block)
        ]
    )
    if texts:
        opens, closes = OPEN, CLOSE
        last, closing = texts[-1]
        if is_wrapped(texts[0][1], closing):
            opens, closes = "", ""
        if more:
            closes += BETWEEN + more
        if opens:
            yield Edit(texts[0][0], opens, _MARKED, (0, 0))
        if closes:
            yield Edit(last, closes, _MARKED, (len(closing), len(closing)))
    yield from become_user(pointer, item)


def become_user(pointer: str, item: Json) -> Iterator[Edit]:
    """Yield the edits that change the role, and remove members that a user message has not."""
    yield Edit(f"{pointer}/role", "user", WHY)
    for key in item:
        if key not in _JOINABLE:
            yield Edit(pointer + to_pointer((key,)), REMOVE, "which no user message has")
