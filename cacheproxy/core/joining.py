"""Late system messages joined to their neighbours, for templates that want roles in turns.

The text joins the user message before it (or the tool's result, where no user message may follow
one), else the one behind it. User messages that only a late one held apart are joined then; two
that the client itself sends in a row are its own affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cacheproxy.core.edits import REMOVE, Edit
from cacheproxy.core.placement import Placement
from cacheproxy.core.reminder import (
    BETWEEN,
    is_all_text,
    is_text,
    kind_of_texts,
    text_in,
    wrap_blocks,
    wrapped,
)

WHY = "late system message given to the user, in its place"
_KEPT = ("role", "content", "type", "id", "status")
"""Members that a user message may have, in any of the APIs; what else a late one has goes."""


def runs_of(
    items: Sequence[Any], moved: set[int], gone: set[int], placement: Placement
) -> Iterator[list[int]]:
    """Yield which messages become one: a late one alone, or with those that it has to join.

    The first of a run is where it all goes.
    """
    run: list[int] = []
    for index, item in enumerate(items):
        if index in gone:
            continue
        is_user = index in moved or _role(item) == "user"
        joins = bool(run) and is_user and _joins(items, run, index, moved, placement)
        if not joins:
            if moved.intersection(run):
                yield run
            run = []
        if is_user or _is_result(item):
            run.append(index)
    if moved.intersection(run):
        yield run


def _joins(
    items: Sequence[Any], run: list[int], index: int, moved: set[int], placement: Placement
) -> bool:
    """Whether the user message at ``index``, a late one or not, is one with the run before it.

    Two that the client itself sends in a row are its own affair.
    """
    if run[0] not in moved and _ends_with_result(items[run[0]]):
        return placement.joins_tool and index in moved and is_all_text(items[index]["content"])
    if not placement.joins_user:
        return False
    return index in moved or bool(moved.intersection(run))


def _settle(run: list[int], items: Sequence[Any], moved: set[int], root: str) -> Iterator[Edit]:
    """Make one user message of ``run``, or add late texts to the tool's result it begins with."""
    home, rest = run[0], run[1:]
    pointer = f"{root}/{home}"
    if home in moved and not rest:
        yield Edit(pointer, as_user(items[home]), WHY)
        return
    if not rest:
        return
    if home not in moved and _ends_with_result(items[home]):
        yield from _after_result(pointer, items[home], [items[index] for index in rest])
    elif (
        home not in moved and isinstance(items[home].get("content"), str) and moved.issuperset(rest)
    ):
        text = "".join(BETWEEN + wrapped(text_in(items[index]["content"])) for index in rest)
        end = len(items[home]["content"])
        yield Edit(f"{pointer}/content", text, WHY, (end, end))
    else:
        content = _joined(run, items, moved)
        if home in moved:
            yield Edit(pointer, as_user(items[home]) | {"content": content}, WHY)
        else:
            yield Edit(f"{pointer}/content", content, WHY)
    for index in rest:
        yield Edit(f"{root}/{index}", REMOVE, WHY)


def _after_result(pointer: str, item: dict[str, Any], late: list[Any]) -> Iterator[Edit]:
    """Add the texts behind what the tool returned, which stays as it is."""
    text = "".join(BETWEEN + wrapped(text_in(each["content"])) for each in late)
    holder, key, value = _result_of(item)
    place = f"{pointer}{holder}/{key}"
    if isinstance(value, str):
        yield Edit(place, text, WHY, (len(value), len(value)))
        return
    blocks = value if isinstance(value, list) else []
    number = len(blocks) - 1
    if blocks and is_text(blocks[number]):
        end = len(blocks[number]["text"])
        yield Edit(f"{place}/{number}/text", text, WHY, (end, end))
    else:
        kind = "input_text" if key == "output" else "text"
        yield Edit(place, [*blocks, {"type": kind, "text": text.lstrip()}], WHY)


def _result_of(item: dict[str, Any]) -> tuple[str, str, Any]:
    """Return where in ``item`` the last result stands: a block, its member, and what it holds."""
    if item.get("type") == "function_call_output":
        return "", "output", item.get("output")
    content = item.get("content")
    if item.get("role") == "tool":
        return "", "content", content
    assert isinstance(content, list)
    number = len(content) - 1
    return f"/content/{number}", "content", content[number].get("content", [])


def _is_result(item: Any) -> bool:
    """Whether ``item`` is a tool's result by itself, outside a user message."""
    if not isinstance(item, dict):
        return False
    if item.get("type") == "function_call_output":
        return isinstance(item.get("output"), str | list)
    return item.get("role") == "tool" and isinstance(item.get("content"), str | list)


def _ends_with_result(item: Any) -> bool:
    """Whether a tool's result is the last that ``item`` says."""
    if _is_result(item):
        return True
    content = item.get("content") if isinstance(item, dict) else None
    last = content[-1] if isinstance(content, list) and content else None
    return isinstance(last, dict) and last.get("type") == "tool_result"


def _role(item: Any) -> Any:
    return item.get("role") if isinstance(item, dict) else None


def _joined(run: list[int], items: Sequence[Any], moved: set[int]) -> Any:
    """Return the content of all messages of ``run`` as that of one."""
    contents = [items[index]["content"] for index in run]
    if all(isinstance(content, str) for content in contents):
        return BETWEEN.join(
            wrapped(content) if index in moved else content
            for index, content in zip(run, contents, strict=True)
        )
    blocks: list[Any] = []
    kind = kind_of_texts(contents)
    for index, content in zip(run, contents, strict=True):
        own = [{"type": kind, "text": content}] if isinstance(content, str) else list(content)
        if index in moved:
            wrap_blocks(own)
        blocks += own
    return blocks


def as_user(item: dict[str, Any]) -> dict[str, Any]:
    """Return a late message as the user's, its text wrapped."""
    content = item["content"]
    if isinstance(content, str):
        content = wrapped(content)
    else:
        content = list(content)
        wrap_blocks(content)
    kept = {key: value for key, value in item.items() if key in _KEPT}
    return {**kept, "role": "user", "content": content}


def joining_edits(
    runs: list[list[int]], items: Sequence[Any], moved: set[int], empty: set[int], root: str
) -> Iterator[Edit]:
    """Yield the edits that make one message of each of ``runs``, and take out ``empty`` ones."""
    for number in sorted(empty):
        yield Edit(f"{root}/{number}", REMOVE, WHY)
    for run in runs:
        yield from _settle(run, items, moved, root)
