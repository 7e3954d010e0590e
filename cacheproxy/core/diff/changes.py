"""All changes from one turn of a conversation to the next, except what it appended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.diff.alignment import AlignedMessage, Alignment, align, match, units
from cacheproxy.core.diff.kind import Change, ChangeKind, Hunk, masked
from cacheproxy.core.diff.text import alike, hunks
from cacheproxy.core.document.pointer import Path, index_in, parse_pointer, to_pointer
from cacheproxy.core.prompt.prompt import Prompt, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import tool_name

_ALL = frozenset(Part)
_ALIKE = 0.5
"""Share of the earlier messages, by number or size, that must still be there; with less, the
history was replaced (a compaction), and its differences are no fields."""
_TELLING = {ChangeKind.REMOVED: 20, ChangeKind.TEXT: 60}
"""Characters of a text, at least, that was moved if it is found elsewhere."""
STRING, LIST = "a string", "a list of blocks"


def changes(before: Request, after: Request, parts: Iterable[Part] = _ALL) -> list[Change]:
    """Return the changes in ``parts``, in template order; none if a body is not understood.

    ``after`` is a later turn of the same conversation: messages appended to it are no change.
    """
    earlier, later = prompt_of(before), prompt_of(after)
    if earlier is None or later is None:
        return []
    wanted = frozenset(parts)
    found: list[Change] = []
    if Part.TOOLS in wanted:
        try:
            found += differences(_tools(before), _tools(after), ("tools",))
        except RecursionError:  # too deeply nested, except for a comparison as a whole
            ours, theirs = ([one.text for one in each.of(Part.TOOLS)] for each in (earlier, later))
            found += [] if ours == theirs else [_TOO_DEEP]
    for part in (Part.SYSTEM, Part.MESSAGES):
        if part in wanted:
            found += _text_changes(before, after, earlier, later, part)
    return found


_TOO_DEEP = Change(ChangeKind.TEXT, Part.TOOLS, "/tools", "client", "", "")


def _tools(request: Request) -> list[Any]:
    """Return the tools without their cache breakpoints."""
    tools = (request.json or {}).get("tools")
    return [
        {key: value for key, value in tool.items() if key != "cache_control"}
        if isinstance(tool, dict)
        else tool
        for tool in (tools if isinstance(tools, list) else ())
    ]


def differences(was: Any, now: Any, path: Path) -> Iterator[Change]:
    """Yield the differences between two values in the tools, as ``json.loads`` returns them.

    The order of keys and items is included: chat templates print tools as JSON, so it is part of
    the prompt. A change's texts are JSON for values that are no strings.
    """
    if isinstance(was, str) and isinstance(now, str):
        for hunk in hunks(was, now):
            yield hunk.change((Part.TOOLS, to_pointer(path), "client"), was, now)
    elif isinstance(was, dict) and isinstance(now, dict):
        yield from _member_changes(was, now, path)
    elif isinstance(was, list) and isinstance(now, list):
        yield from _item_changes(was, now, path)
    elif _as_json(was) != _as_json(now):
        yield _tool_change(ChangeKind.TEXT, path, _string_or_json(was), _string_or_json(now))


def _member_changes(
    was: dict[str, Any], now: dict[str, Any], path: Path, places: tuple[Sequence[str], ...] = ()
) -> Iterator[Change]:
    """Yield the changes of members by name; ``places``: both lists' names, if these are items."""

    def at(name: str, side: int) -> Path:
        return (*path, places[side].index(name) if places else name)

    ours, theirs = [key for key in was if key in now], [key for key in now if key in was]
    if ours != theirs:
        yield _tool_change(ChangeKind.REORDERED, path, ", ".join(ours), ", ".join(theirs))
    for key, value in was.items():
        if key not in now:
            yield _tool_change(ChangeKind.REMOVED, at(key, 0), _string_or_json(value), "")
    for key, value in now.items():
        if key not in was:
            yield _tool_change(ChangeKind.ADDED, at(key, 1), "", _string_or_json(value))
        else:
            yield from differences(was[key], value, at(key, 1))


def _item_changes(was: list[Any], now: list[Any], path: Path) -> Iterator[Change]:
    """Yield changes of list items: named ones (tools) matched by name, others by their JSON."""
    names = _names(was), _names(now)
    if all(names):
        before, after = (
            dict(zip(*pair, strict=True)) for pair in zip(names, (was, now), strict=True)
        )
        yield from _member_changes(before, after, path, names)
        return
    ours, theirs = [_as_json(item) for item in was], [_as_json(item) for item in now]
    if ours != theirs and sorted(ours) == sorted(theirs):
        yield _tool_change(ChangeKind.REORDERED, path, _string_or_json(was), _string_or_json(now))
        return
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        common = min(i2 - i1, j2 - j1)
        for step in range(common):
            yield from differences(was[i1 + step], now[j1 + step], (*path, j1 + step))
        for i in range(i1 + common, i2):
            yield _tool_change(ChangeKind.REMOVED, (*path, i), _string_or_json(was[i]), "")
        for j in range(j1 + common, j2):
            yield _tool_change(ChangeKind.ADDED, (*path, j), "", _string_or_json(now[j]))


def _names(items: Sequence[Any]) -> list[str]:
    """Return the names of all items, [] if one has none or two are equal."""
    names = [tool_name(item) for item in items]
    found = [name for name in names if name is not None]
    return found if len(found) == len(set(found)) == len(items) else []


def _tool_change(kind: ChangeKind, path: Path, was: str, now: str) -> Change:
    return Change(kind, Part.TOOLS, to_pointer(path), "client", was, now)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _string_or_json(value: Any) -> str:
    return value if isinstance(value, str) else _as_json(value)


def _text_changes(
    before: Request, after: Request, earlier: Prompt, later: Prompt, part: Part
) -> list[Change]:
    """Return the changes in ``part``, system or messages; [] if the history was replaced."""
    fixed = part is Part.SYSTEM
    ours, theirs = units(earlier, system=fixed), units(later, system=fixed)
    aligned = align(ours, theirs, fixed=fixed)
    if not fixed and _was_replaced(ours, aligned):
        return []
    spelt = [
        Change(ChangeKind.SPELLING, part, path, _source(theirs[j]), was, now)
        for i, j in aligned.pairs
        for path, was, now in _forms(
            value_at(before, ours[i].path),
            value_at(after, theirs[j].path),
            theirs[j].path,
            is_message=theirs[j].path.count("/") == 2,
        )
    ]
    # A system text at the end of the prompt may grow.
    may_grow = not fixed or earlier.segments[-1].part is part
    one, other = (
        "".join("\n<{}>\n{}".format(*unit.key) for unit in side) for side in (ours, theirs)
    )
    if other.startswith(one) if may_grow else other == one:
        return spelt
    result = [
        Change(ChangeKind.MOVED, part, ours[i].path, _source(ours[i]), ours[i].text, theirs[j].text)
        for i, j in aligned.moved
    ]
    for i in aligned.gone:
        # A turn that is taken back removes the model's answer too: that is no field.
        is_tail = not fixed and all(row < i for row, _ in aligned.pairs)
        if not (is_tail and _source(ours[i]) in ("model", "tool")):
            result.append(_whole_change(ChangeKind.REMOVED, part, ours[i]))
    result += [_whole_change(ChangeKind.ADDED, part, theirs[j]) for j in aligned.new]
    for i, j in aligned.pairs:
        if ours[i].key != theirs[j].key:
            is_last = not fixed and i == len(ours) - 1
            result += _block_changes((before, after), ours[i], theirs[j], part, is_last=is_last)
    elsewhere = [theirs[j].text for j in aligned.appended]
    return spelt + _with_moves(result, elsewhere)


def _was_replaced(before: list[AlignedMessage], aligned: Alignment) -> bool:
    kept = {i for i, _ in (*aligned.pairs, *aligned.moved)}
    chars = sum(len(before[i].text) for i in kept)
    total = sum(len(unit.text) for unit in before)
    return chars < _ALIKE * total and len(kept) < _ALIKE * len(before)


def _source(unit: AlignedMessage) -> str:
    return next((block.source for block in unit.blocks), "client")


def _block_changes(
    step: tuple[Request, Request],
    was: AlignedMessage,
    now: AlignedMessage,
    part: Part,
    *,
    is_last: bool,
) -> Iterator[Change]:
    """Yield the changes in the blocks of a message; text appended to the last message is none."""
    ours, theirs = was.blocks, now.blocks
    pairs = match(
        [block.text for block in ours],
        [block.text for block in theirs],
        lambda i, j: alike(ours[i].text, theirs[j].text) or len(ours) == len(theirs) == 1,
    )
    for i in sorted(set(range(len(ours))) - {i for i, _ in pairs}):
        yield _whole_change(ChangeKind.REMOVED, part, ours[i])
    last = max((j for _, j in pairs), default=-1)
    for j in sorted(set(range(len(theirs))) - {j for _, j in pairs}):
        if j < last or not is_last:
            yield _whole_change(ChangeKind.ADDED, part, theirs[j])
    for i, j in pairs:
        one, other = ours[i], theirs[j]
        is_string = _is_string(step[0], one) and _is_string(step[1], other)
        at_end = is_last and i == len(ours) - 1
        for hunk in _hunks_or_whole(one.text, other.text):
            if at_end and hunk.kind is ChangeKind.ADDED and hunk.was[0] == len(one.text):
                continue
            if is_string:
                place = part, other.path, other.source
                yield hunk.change(place, one.text, other.text)
            else:
                texts = one.text[slice(*hunk.was)], other.text[slice(*hunk.now)]
                yield Change(hunk.kind, part, other.path, other.source, *texts)


def _hunks_or_whole(was: str, now: str) -> list[Hunk]:
    """Return the differences of two texts, or the whole texts as one if they are hardly alike."""
    found = hunks(was, now)
    if len(found) > 1 and not alike(masked(was), masked(now)):
        return [Hunk(ChangeKind.TEXT, (0, len(was)), (0, len(now)))]
    return found


def _whole_change(kind: ChangeKind, part: Part, one: AlignedMessage | Segment) -> Change:
    """Return the change for a message or block that has come or gone as a whole."""
    source = _source(one) if isinstance(one, AlignedMessage) else one.source
    was, now = (one.text, "") if kind is ChangeKind.REMOVED else ("", one.text)
    return Change(kind, part, one.path, source, was, now)


def _with_moves(found: list[Change], elsewhere: list[str]) -> list[Change]:
    """Return ``found``; texts that only moved, equal but for tokens, are of kind MOVED, once."""
    if not any(change.kind in _TELLING for change in found):
        return found
    came = {masked(change.now.strip()) for change in found if change.kind is ChangeKind.ADDED}
    places = [masked(text) for text in elsewhere] + sorted(came)
    result: list[Change] = []
    taken: set[str] = set()
    for change in found:
        text, least = change.was.strip(), _TELLING.get(change.kind)
        text = masked(text) if least is not None and len(text) >= least else ""
        if text and any(text in place for place in places):
            taken.add(text)
            result.append(replace(change, kind=ChangeKind.MOVED))
        else:
            result.append(change)
    return [
        change
        for change in result
        if not (change.kind is ChangeKind.ADDED and masked(change.now.strip()) in taken)
    ]


def _is_string(request: Request, segment: Segment) -> bool:
    """Whether ``segment`` is a string of the body, so that spans in it can be edited."""
    return bool(value_at(request, segment.path) == segment.text)


def value_at(request: Request, pointer: str) -> Any:
    """Return the JSON value at ``pointer`` (RFC 6901), or None if there is none."""
    value: Any = request.json
    for step in parse_pointer(pointer):
        if isinstance(value, list):
            index = index_in(step, value)
            value = value[index] if index is not None else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _forms(was: Any, now: Any, path: str, *, is_message: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (pointer in the later request, form before, form now) of contents that changed form.

    ``was``, ``now``: a message with is_message, otherwise a system text outside the messages.
    """
    if is_message:
        if not (isinstance(was, dict) and isinstance(now, dict)):
            return
        was, now, path = was.get("content"), now.get("content"), f"{path}/content"
    forms = _form(was), _form(now)
    if forms in ((STRING, LIST), (LIST, STRING)):
        yield path, forms[0], forms[1]
    if isinstance(was, list) and isinstance(now, list):
        for index, (one, other) in enumerate(zip(was, now, strict=False)):
            if _is_result(one) and _is_result(other):
                yield from _forms(one, other, f"{path}/{index}", is_message=True)


def _form(content: Any) -> str | None:
    """Return STRING or LIST; None for an empty content, or a list with cache breakpoints."""
    if isinstance(content, str) and content:
        return STRING
    if not isinstance(content, list) or not content:
        return None
    has_breakpoint = any(isinstance(block, dict) and "cache_control" in block for block in content)
    return None if has_breakpoint else LIST


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"
