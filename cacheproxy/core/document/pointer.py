"""Places in a JSON body: pointers (RFC 6901) and the patterns that match them.

A pointer names one value: ``/system/0/text``. A pattern names many: each segment is a
member name, an index or ``*``, and may carry a condition on the object it leads to:

    /messages/*[role=system|developer]/content

matches the content of every message whose ``role`` is ``system`` or ``developer``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

Accepted = Callable[[Path, Any, "PathStep"], list[tuple[str | int, Any]]]
_SEGMENT = re.compile(r"(?P<name>[^\[]*)(?:\[(?P<key>[^\[\]=]+)=(?P<values>[^\[\]]+)\])?")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")


class PathError(ValueError):
    """A pointer or pattern that cannot be read, or leads nowhere in this body."""


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the unescaped segments of ``pointer`` (RFC 6901, section 3).

    Raises PathError if it is neither empty nor starts with a slash.
    """
    if pointer == "":
        return ()
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise PathError("a path must start with '/'")  # unquoted: it may be text put in its place
    segments = pointer[1:].split("/")
    return tuple(segments if "~" not in pointer else map(_unescape, segments))


def to_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) for ``path``."""
    joined = "/".join(map(str, path))
    if "~" not in joined and joined.count("/") == len(path) - 1:
        return "/" + joined
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def index_in(step: str, value: Sequence[Any]) -> int | None:
    """Return ``step`` as an index of ``value`` (RFC 6901, section 4: no leading zeros), or None."""
    if not _INDEX.fullmatch(step) or int(step) >= len(value):
        return None
    return int(step)


def _unescape(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


class PathStep(NamedTuple):
    """One step of a pattern: what to enter, and what the object there must say."""

    name: str  #: of a member, an index, or ``*``
    number: int | None = None  #: the name as an index (RFC 6901, section 4); None if it is none
    key: str | None = None
    """The member that the condition in brackets looks at; None: no condition."""
    values: tuple[str, ...] = ()  #: texts, one of which it must be

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` meets the condition in brackets, if there is one."""
        key = self.key
        return key is None or (isinstance(value, dict) and value.get(key) in self.values)

    def accepted(self, value: Any) -> list[tuple[str | int, Any]]:
        """Return the members or elements of ``value`` that meet it, with their names or numbers."""
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        return [one for one in inside if self.accepts(one[1])]


class PathPattern(NamedTuple):
    """A pattern that has been read."""

    head: tuple[PathStep, ...]  #: the steps up to the first ``*``
    each: PathStep | None = None  #: that ``*`` with its condition; None if there is none
    rest: PathPattern | None = None  #: what follows it; None if there is no ``*``


@lru_cache(maxsize=1024)
def parse_pattern(pattern: str) -> PathPattern:
    """Read ``pattern``; raises PathError if it cannot be read."""
    if not pattern.startswith("/"):
        raise PathError(f"a path pattern must start with '/': {pattern!r}")
    segments = []
    for text in pattern[1:].split("/"):
        found = _SEGMENT.fullmatch(text)
        if found is None:
            raise PathError(
                f"cannot read {text!r} in {pattern!r}: write name, * or *[key=value|value]"
            )
        name, key, values = found.group("name", "key", "values")
        index = int(name) if _INDEX.fullmatch(name) else None
        allowed = tuple((values or "").split("|"))
        segments.append(PathStep(_unescape(name), index, key, allowed))
    return _pattern_of(segments)


def _pattern_of(segments: list[PathStep]) -> PathPattern:
    for at, segment in enumerate(segments):
        if segment.name == "*":
            return PathPattern(tuple(segments[:at]), segment, _pattern_of(segments[at + 1 :]))
    return PathPattern(tuple(segments))


def match_paths(value: Any, pattern: str) -> Iterator[tuple[Path, Any]]:
    """Return ``(path, value there)`` for every place in the JSON ``value`` that matches."""
    return match_all(value, (parse_pattern(pattern),))


def match_all(
    value: Any, patterns: Iterable[PathPattern], accepted: Accepted | None = None
) -> Iterator[tuple[Path, Any]]:
    """Yield the same for several patterns, one after the other.

    A rule for all dialects has several of them, and most end at once: what begins as one that
    led nowhere does so too. What begins as the one before is looked through once for both, by
    ``accepted``: it is given a path, what stands there, and the segment with the ``*``.
    """
    nowhere: tuple[PathStep, ...] = ()
    last: tuple[tuple[PathStep, ...], PathStep] | None = None
    each: list[tuple[str | int, Any]] = []
    for pattern in patterns:
        head = pattern.head
        if nowhere and head[: len(nowhere)] == nowhere:
            continue
        found = _follow(value, head)
        if found is None:
            nowhere = head
        elif pattern.each is None or pattern.rest is None:
            yield found
        elif isinstance(found[1], dict | list):
            if last != (head, pattern.each):
                last = head, pattern.each
                each = (
                    accepted(*found, pattern.each) if accepted else pattern.each.accepted(found[1])
                )
            yield from _walk(found[0], each, pattern.rest)


def _follow(value: Any, segments: Iterable[PathStep]) -> tuple[Path, Any] | None:
    """Return the place that segments without ``*`` lead to, or None."""
    path: Path = ()
    for segment in segments:
        name, number, key, _ = segment
        if isinstance(value, dict):
            if name not in value:
                return None
            value = value[name]
            path += (name,)
        elif isinstance(value, list) and number is not None and number < len(value):
            value = value[number]
            path += (number,)
        else:
            return None
        if key is not None and not segment.accepts(value):
            return None
    return path, value


def _walk(
    path: Path, each: Iterable[tuple[str | int, Any]], rest: PathPattern
) -> Iterator[tuple[Path, Any]]:
    """Yield what ``rest`` leads to from each of the places below ``path``."""
    for step, item in each:
        found = _follow(item, rest.head)
        if found is None:
            continue
        place = (*path, step, *found[0])
        if rest.each is None or rest.rest is None:
            yield place, found[1]
        elif isinstance(found[1], dict | list):
            yield from _walk(place, rest.each.accepted(found[1]), rest.rest)


def leads_to(value: Any, pattern: PathPattern, pointer: str) -> bool:
    """Whether ``pattern`` matches the place ``pointer`` in ``value``; nothing else is looked at."""
    steps = parse_pointer(pointer)
    rest: PathPattern | None = pattern
    while rest is not None:
        segments = rest.head if rest.each is None else (*rest.head, rest.each)
        if len(steps) < len(segments):
            return False
        for segment, step in zip(segments, steps, strict=False):
            if segment.name not in (step, "*"):
                return False
            at: Any = step if isinstance(value, dict) else int(step) if step.isdecimal() else None
            try:
                value = value[at]
            except (LookupError, TypeError):
                return False
            if not segment.accepts(value):
                return False
        steps, rest = steps[len(segments) :], rest.rest
    return not steps
