"""Blocks of messages that a server may refuse: their places and their replacements.

A block's *keys* are the keys under which a refusal of it may be remembered: images, audio and video
alone, since a model takes them or does not; all else together with the API of its spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cacheproxy.core.adapt.wording import is_remote, kind_of, text_of, worded
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import Path, to_pointer

Json = dict[str, Any]
Key = tuple[str, ...]
RESULT = "result"
"""Place of a block in a tool's result; other places are the role of the message."""
BEHIND = "behind"
"""Value of a fact: images of this place go behind it, into a user message."""
REMOTE = ("image", "url")
"""Key of images that the server would have to fetch."""
_NATIVE = frozenset({"text", "tool_use", "tool_result", "thinking"})
"""Types of blocks that every server of the Messages API knows; those of Chat know text."""
_TEXTS = frozenset({"text", "input_text", "output_text", None})
_HIDDEN = frozenset({"thinking", "redacted_thinking", "reasoning", "fallback"})
"""Types of blocks without content for the reader of a conversation."""
_MOVED = "[image: see below]"
_WHY = "part of a message that the server cannot take, in words"
_RESPELLED = "type of a text, as the server spells it"
_BEHIND = "image in a tool's result, sent as a user's"


class Block(NamedTuple):
    """A block that a server may refuse."""

    keys: tuple[Key, ...]  #: keys of its refusal, the widest first
    path: Path  #: its path in the body
    value: Any  #: its value in the request
    place: str  #: role of its message, or RESULT
    item: int  #: index of its message
    text_type: str  #: ``type`` of a text block in its place
    is_alone: bool  #: whether its message would be empty without such blocks

    @property
    def kind(self) -> str:
        """``image``, ``audio``, ``video``, ``file``, or "" for all else."""
        return kind_of(self.value)


def blocks_in(items: list[Json], root: str, dialect: Dialect) -> Iterator[Block]:
    """Yield the blocks that a server may refuse, in their order."""
    for number, item in enumerate(items):
        if isinstance(item.get("content"), str) and not dialect.images:
            continue  # most, and nothing to look at
        place = str(item.get("role") or "user")
        if dialect.images:
            for index, data in enumerate(_list(item.get("images"))):
                block = {"type": "image", "data": data}
                at = (root, number, "images", index)
                keys = _keys(block, place, dialect)
                yield Block(keys, at, block, place, number, "text", False)
        elif dialect.is_itemised and str(item.get("type")).endswith("_output"):
            if is_content(item.get("output")) and isinstance(item.get("call_id"), str):
                inside = (root, number, "output")
                yield from _listed(item["output"], inside, RESULT, number, dialect)
        elif not dialect.is_itemised or item.get("type") in (None, "message"):
            place = RESULT if place == "tool" and not dialect.head_in_blocks else place
            path = (root, number, "content")
            yield from _listed(item.get("content"), path, place, number, dialect)


def _listed(content: Any, path: Path, place: str, number: int, dialect: Dialect) -> Iterator[Block]:
    """Yield the blocks of ``content``, and in its tool results, that a server may refuse."""
    found = []
    blocks = _list(content)
    for index, block in enumerate(blocks):
        at = (*path, index)
        if isinstance(block, dict) and block.get("type") == "tool_result":
            inside = (*at, "content")
            yield from _listed(block.get("content"), inside, RESULT, number, dialect)
        elif keys := _keys(block, place, dialect):
            found.append((keys, at, block))
    for keys, at, block in found:
        kind = text_type(place, dialect)
        yield Block(keys, at, block, place, number, kind, len(found) == len(blocks))


def _keys(block: Any, place: str, dialect: Dialect) -> tuple[Key, ...]:
    """Return the keys of a refusal of ``block``, () if no server refuses it."""
    if isinstance(block, str):
        return ((dialect.name, "", place),)
    if not isinstance(block, dict):
        return ()
    kind, medium, source = type_of(block), kind_of(block), block.get("source")
    if kind == text_type(place, dialect) or (dialect.head_in_blocks and kind in _NATIVE):
        return ()
    if kind in _TEXTS and isinstance(block.get("text"), str):
        return ((dialect.name, kind or "", place),)
    if medium == "image" and isinstance(source, dict) and source.get("type") == "file":
        return ((dialect.name, "image", "file"),)
    if medium == "image":
        remote = (REMOTE,) if is_remote(block) else ()
        return (("image",), *remote, (dialect.name, "image", place))
    return ((medium,),) if medium in ("audio", "video") else ((dialect.name, kind or ""),)


def type_of(block: Any) -> str | None:
    """Return the type of ``block``; None: it has none, or is a bare text."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def is_content(output: Any) -> bool:
    """Whether a tool's ``output`` is a list of blocks, like the content of a message."""
    return isinstance(output, list) and all(
        isinstance(block, dict) and isinstance(block.get("type"), str) for block in output
    )


def text_type(place: str, dialect: Dialect) -> str:
    """Return the type of a text block in ``place``."""
    if not dialect.is_itemised:
        return "text"
    return "output_text" if place == "assistant" else "input_text"


def edits_of(
    blocks: list[Block], behind: set[Path], items: list[Json], whys: dict[Path, str]
) -> Iterator[Edit]:
    """Yield the edits that replace ``blocks`` by text; those at the paths ``behind`` move.

    ``whys``: the reasons, by path, that are not the usual one.
    """
    beside: dict[int, list[Block]] = {}
    for block in blocks:
        if block.path in behind:
            yield Edit(to_pointer(block.path), {"type": block.text_type, "text": _MOVED}, _BEHIND)
        elif block.path[2] == "images":
            beside.setdefault(block.item, []).append(block)
        else:
            yield _plain(block, whys.get(block.path, ""))
    for number, gone in beside.items():
        yield from _without_images(to_pointer(gone[0].path[:2]), items[number], gone)


def _plain(block: Block, why: str) -> Edit:
    """Return the edit that respells ``block``, removes hidden reasoning, or puts words."""
    pointer, value, kind = to_pointer(block.path), block.value, block.text_type
    if isinstance(value, str):
        return Edit(pointer, {"type": kind, "text": value}, _RESPELLED)
    if type_of(value) in _TEXTS and isinstance(value.get("text"), str):
        return Edit(f"{pointer}/type", kind, _RESPELLED, adds="type" not in value)
    if type_of(value) in _HIDDEN and not block.is_alone:
        return Edit(pointer, REMOVE, "reasoning of another provider left out")
    text = text_of(value)
    return Edit(pointer, {"type": kind, "text": worded(value, why) if text is None else text}, _WHY)


def _without_images(pointer: str, item: Json, gone: list[Block]) -> Iterator[Edit]:
    """Yield the edits for Ollama, whose images stand beside a text: words are added to that."""
    lines = "\n".join(worded(block.value) for block in gone)
    whole = len(gone) == len(_list(item.get("images")))
    for pointed in [f"{pointer}/images"] if whole else [to_pointer(one.path) for one in gone]:
        yield Edit(pointed, REMOVE, _WHY)
    text = item.get("content")
    if isinstance(text, str) and text:
        yield Edit(f"{pointer}/content", f"\n{lines}", _WHY, span=(len(text), len(text)))
    elif not text:
        yield Edit(f"{pointer}/content", lines, _WHY, adds="content" not in item)


def moved(
    blocks: list[Block], items: list[Json], root: str, dialect: Dialect, taken: set[str]
) -> Iterator[Edit]:
    """Yield the edits that move ``blocks`` behind their results, never before a ``taken`` place."""
    of_item: dict[int, list[Any]] = {}
    for block in blocks:
        of_item.setdefault(block.item, []).append(block.value)
    waiting: list[Any] = []
    for number, item in enumerate(items):
        waiting += of_item.get(number, ())
        if not waiting:
            continue
        if dialect.head_in_blocks:  # Messages: results stand in a user's message
            content = item["content"]
            kinds = [block.get("type") if isinstance(block, dict) else "" for block in content]
            last = len(kinds) - kinds[::-1].index("tool_result")
            pointer = _before(f"/{root}/{number}/content", last, len(kinds), taken)
            yield from [Edit(pointer, value, _BEHIND, adds=True) for value in waiting]
            waiting = []
        elif not is_result_item(items[number + 1] if number + 1 < len(items) else {}):
            new: Json = {"role": "user", "content": waiting}
            new = {"type": "message", **new} if dialect.is_itemised else new
            pointer = _before(f"/{root}", number + 1, len(items), taken)
            yield Edit(pointer, new, _BEHIND, adds=True)
            waiting = []


def _before(above: str, number: int, count: int, taken: set[str]) -> str:
    """Return the first pointer that is not ``taken``, from ``number`` on; ``-``: the end."""
    while f"{above}/{number}" in taken:
        number += 1
    return f"{above}/{number if number < count else '-'}"


def is_result_item(item: Json) -> bool:
    """Whether ``item`` as a whole is a tool's result: Chat's message, Responses' item."""
    return item.get("role") == "tool" or str(item.get("type")).endswith("_call_output")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
