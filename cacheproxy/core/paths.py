"""Places in a JSON body: pointers (RFC 6901) and the patterns that match them.

A pointer names one value: ``/system/0/text``. A pattern names many: each segment is a
member name, an index or ``*``, and may carry a condition on the object it leads to:

    /messages/*[role=system|developer]/content

matches the content of every message whose ``role`` is ``system`` or ``developer``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

_SEGMENT = re.compile(r"(?P<name>[^\[]*)(?:\[(?P<key>[^\[\]=]+)=(?P<values>[^\[\]]+)\])?")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_MISSING = object()


class PathError(ValueError):
    """A pointer or pattern that cannot be read, or leads nowhere in this body."""


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the unescaped segments of ``pointer`` (RFC 6901, section 3).

    Raises PathError if it is neither empty nor starts with a slash.
    """
    if pointer == "":
        return ()
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise PathError("a path starts with '/'")  # unquoted: it may be text put in its place
    return tuple(_unescape(segment) for segment in pointer[1:].split("/"))


def to_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) for ``path``."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def index_in(step: str, value: Sequence[Any]) -> int | None:
    """Return ``step`` as an index of ``value`` (RFC 6901, section 4: no leading zeros), or None."""
    if not _INDEX.fullmatch(step) or int(step) >= len(value):
        return None
    return int(step)


def _unescape(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


class Segment(NamedTuple):
    """One step of a pattern: what to enter, and what the object there must say.

    ``index``: the name as an index (RFC 6901, section 4), None if it is none.
    """

    name: str
    index: int | None = None
    key: str | None = None
    values: frozenset[str] = frozenset()

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` meets the condition in brackets, if there is one."""
        if self.key is None:
            return True
        said = value.get(self.key, _MISSING) if isinstance(value, dict) else _MISSING
        return isinstance(said, str) and said in self.values


@lru_cache(maxsize=1024)
def parse_pattern(pattern: str) -> tuple[Segment, ...]:
    """Return the segments of ``pattern``; raises PathError if it cannot be read."""
    if not pattern.startswith("/"):
        raise PathError(f"a path pattern starts with '/': {pattern!r}")
    segments = []
    for text in pattern[1:].split("/"):
        found = _SEGMENT.fullmatch(text)
        if found is None:
            raise PathError(
                f"cannot read {text!r} in {pattern!r}: write name, * or *[key=value|value]"
            )
        name, key, values = found.group("name", "key", "values")
        index = int(name) if _INDEX.fullmatch(name) else None
        allowed = frozenset((values or "").split("|"))
        segments.append(Segment(_unescape(name), index, key, allowed))
    return tuple(segments)


def match_paths(value: Any, pattern: str) -> Iterator[tuple[Path, Any]]:
    """Yield ``(path, value there)`` for every place in the JSON ``value`` that matches."""
    return match_all(value, (parse_pattern(pattern),))


def match_all(
    value: Any, patterns: Iterable[tuple[Segment, ...]]
) -> Iterator[tuple[Path, Any]]:
    """Yield the same for several patterns, one after the other.

    A rule for all dialects has several of them, and most end at once.
    """
    for segments in patterns:
        first = segments[0].name
        if first == "*" or not isinstance(value, dict) or first in value:
            yield from _walk(value, segments, 0, ())


def _walk(
    value: Any, segments: tuple[Segment, ...], number: int, path: Path
) -> Iterator[tuple[Path, Any]]:
    for at in range(number, len(segments)):
        segment = segments[at]
        name, step, key, _ = segment
        if name == "*":
            for each, item in _items(value):
                if segment.accepts(item):
                    yield from _walk(item, segments, at + 1, (*path, each))
            return
        if isinstance(value, dict):
            if name not in value:
                return
            value, path = value[name], (*path, name)
        elif step is not None and isinstance(value, list) and step < len(value):
            value, path = value[step], (*path, step)
        else:
            return
        if key is not None and not segment.accepts(value):
            return
    yield path, value


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()
