"""Places in a JSON body: pointers (RFC 6901) and the patterns that match them.

A pointer names one value: ``/system/0/text``. A pattern names many: each segment is a member name,
an index or ``*``, and may have a condition on the object that it leads to:

    /messages/*[role=system|developer]/content

matches the content of every message whose ``role`` is ``system`` or ``developer``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

_SEGMENT = re.compile(r"(?P<name>[^\[]*)(?:\[(?P<key>[^\[\]=]+)=(?P<values>[^\[\]]+)\])?")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")


class PathError(ValueError):
    """A pointer or pattern is invalid, or leads nowhere in this body."""


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the unescaped segments of ``pointer`` (RFC 6901, section 3).

    Raises PathError if it is neither empty nor starts with a slash.
    """
    if pointer == "":
        return ()
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise PathError("a path must start with '/'")  # unquoted: it may be text given by mistake
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
    """One step of a pattern: the member or elements to enter, and the condition on them."""

    name: str  #: name of a member, an index, or ``*``
    number: int | None = None  #: name as an index (RFC 6901, section 4), None if it is none
    key: str | None = None
    """Member that the condition in brackets is on, None without a condition."""
    values: tuple[str, ...] = ()  #: texts of which that member must be one


class PathPattern(NamedTuple):
    """A parsed pattern."""

    steps: tuple[PathStep, ...]  #: its steps
    first: str | None = None  #: name of the first step, None if that is ``*``
    reach: float = math.inf
    """Leading elements, of an array that the first step names, that may be entered at most."""


Places = Mapping[str | None, tuple[PathPattern, ...]]
"""Patterns by the name of their first step, None for those that begin with ``*``."""


def places_of(patterns: Iterable[str]) -> Places:
    """Return ``patterns`` parsed; raises PathError if one is invalid."""
    found: dict[str | None, tuple[PathPattern, ...]] = {}
    for pattern in map(parse_pattern, patterns):
        found[pattern.first] = (*found.get(pattern.first, ()), pattern)
    return found


@lru_cache(maxsize=1024)
def parse_pattern(pattern: str) -> PathPattern:
    """Return ``pattern`` parsed; raises PathError if it is invalid."""
    if not pattern.startswith("/"):
        raise PathError(f"a path pattern must start with '/': {pattern!r}")
    steps = []
    for text in pattern[1:].split("/"):
        found = _SEGMENT.fullmatch(text)
        if found is None:
            raise PathError(
                f"cannot read {text!r} in {pattern!r}: write name, * or *[key=value|value]"
            )
        name, key, values = found.group("name", "key", "values")
        index = int(name) if _INDEX.fullmatch(name) else None
        allowed = tuple((values or "").split("|"))
        steps.append(PathStep(_unescape(name), index, key, allowed))
    second = steps[1].number if steps[1:] and steps[0].key is None else -1
    reach = math.inf if second is None else second + 1
    return PathPattern(tuple(steps), None if steps[0].name == "*" else steps[0].name, reach)


def match_paths(value: Any, pattern: str) -> Iterator[tuple[Path, Any]]:
    """Yield ``(path, value there)`` for every place in the JSON ``value`` that matches."""
    return iter(match_all(value, (parse_pattern(pattern),))[0])


def match_all(
    value: Any,
    patterns: Iterable[PathPattern],
    kind: type = object,
    first: int = 0,
    at: Path = (),
) -> list[list[tuple[Path, Any]]]:
    """Return for each of ``patterns`` its matches: ``(path, value there)`` of values of ``kind``.

    ``at``: path of ``value``, to which the first steps of all ``patterns`` lead. ``first``: index
    of the first element to enter in an array that is a member.
    """
    found: list[list[tuple[Path, Any]]] = []
    for steps, _, _ in patterns:
        places: list[tuple[Path, Any]] = [(at, value)]
        for name, number, key, values in steps[len(at) :]:
            ends: list[tuple[Path, Any]] = []
            for path, place in places:
                inner: Iterable[tuple[str | int, Any]] = ()
                if isinstance(place, dict):
                    if name == "*":
                        inner = place.items()
                    elif name in place:
                        inner = ((name, place[name]),)
                elif isinstance(place, list):
                    start = first if len(path) == 1 else 0
                    if name == "*":
                        inner = enumerate(place[start:] if start else place, start)
                    elif number is not None and start <= number < len(place):
                        inner = ((number, place[number]),)
                for step, one in inner:
                    if key is None or (isinstance(one, dict) and one.get(key) in values):
                        ends.append(((*path, step), one))
            places = ends
        found.append([one for one in places if kind is object or isinstance(one[1], kind)])
    return found


def leads_to(value: Any, pattern: PathPattern, pointer: str) -> bool:
    """Whether ``pattern`` matches the place ``pointer`` in ``value``; no other place is visited."""
    steps = parse_pointer(pointer)
    if len(steps) != len(pattern.steps):
        return False
    for (name, _, key, values), step in zip(pattern.steps, steps, strict=True):
        if name not in (step, "*"):
            return False
        at: Any = step if isinstance(value, dict) else int(step) if step.isdecimal() else None
        try:
            value = value[at]
        except (LookupError, TypeError):
            return False
        if key is not None and not (isinstance(value, dict) and value.get(key) in values):
            return False
    return True
