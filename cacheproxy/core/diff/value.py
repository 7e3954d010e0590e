"""All places where two JSON values differ, the order of their keys and items included.

Chat templates print tools as JSON, so the order is part of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.diff.text import Hunk, hunks
from cacheproxy.core.document.pointer import Path
from cacheproxy.core.prompt.segments import tool_name


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two JSON values."""

    kind: ChangeKind  #: what sort of change it is
    path: Path  #: to the later value, or to the earlier one if it has gone
    was: str  #: the earlier value as text: a string as it reads, others as JSON; "" for none
    now: str  #: the later value, likewise
    hunk: Hunk | None = None  #: which part of a string; None: the whole value differs


def differences(was: Any, now: Any, path: Path = ()) -> Iterator[Difference]:
    """Yield the differences between two values as ``json.loads`` returns them."""
    if isinstance(was, str) and isinstance(now, str):
        for hunk in hunks(was, now):
            yield Difference(hunk.kind, path, was, now, hunk)
    elif isinstance(was, dict) and isinstance(now, dict):
        yield from _members(was, now, path)
    elif isinstance(was, list) and isinstance(now, list):
        yield from _items(was, now, path)
    elif _spelt(was) != _spelt(now):
        yield Difference(ChangeKind.TEXT, path, _text(was), _text(now))


def _members(
    was: dict[str, Any], now: dict[str, Any], path: Path, places: tuple[Sequence[str], ...] = ()
) -> Iterator[Difference]:
    """Compare by name; ``places``: the names of items, in the order of the lists that have them."""

    def at(name: str, side: int) -> Path:
        return (*path, places[side].index(name) if places else name)

    ours, theirs = [key for key in was if key in now], [key for key in now if key in was]
    if ours != theirs:
        yield Difference(ChangeKind.REORDERED, path, ", ".join(ours), ", ".join(theirs))
    for key, value in was.items():
        if key not in now:
            yield Difference(ChangeKind.REMOVED, at(key, 0), _text(value), "")
    for key, value in now.items():
        if key not in was:
            yield Difference(ChangeKind.ADDED, at(key, 1), "", _text(value))
        else:
            yield from differences(was[key], value, at(key, 1))


def _items(was: list[Any], now: list[Any], path: Path) -> Iterator[Difference]:
    """Items with names (tools) are matched by name, others by how they are spelt."""
    names = _names(was), _names(now)
    if all(names):
        before, after = (
            dict(zip(*pair, strict=True)) for pair in zip(names, (was, now), strict=True)
        )
        yield from _members(before, after, path, names)
        return
    ours, theirs = [_spelt(item) for item in was], [_spelt(item) for item in now]
    if ours != theirs and sorted(ours) == sorted(theirs):
        yield Difference(ChangeKind.REORDERED, path, _text(was), _text(now))
        return
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        common = min(i2 - i1, j2 - j1)
        for step in range(common):
            yield from differences(was[i1 + step], now[j1 + step], (*path, j1 + step))
        for i in range(i1 + common, i2):
            yield Difference(ChangeKind.REMOVED, (*path, i), _text(was[i]), "")
        for j in range(j1 + common, j2):
            yield Difference(ChangeKind.ADDED, (*path, j), "", _text(now[j]))


def _names(items: Sequence[Any]) -> list[str]:
    """The names of all items, or nothing if one has none or two have the same."""
    names = [tool_name(item) for item in items]
    found = [name for name in names if name is not None]
    return found if len(found) == len(set(found)) == len(items) else []


def _spelt(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _spelt(value)
