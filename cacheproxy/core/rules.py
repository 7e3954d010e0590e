"""Rules: named normalizers, most of them a row in a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from cacheproxy.core.edits import Edit
from cacheproxy.core.paths import PathError, match_paths, parse_pattern, to_pointer
from cacheproxy.core.places import NAMED
from cacheproxy.core.request import Request

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
VOLATILE = "volatile"
"""A regex group of this name is the only part of a match that is replaced."""


class RuleError(ValueError):
    """A rule that cannot work: bad name, pattern, place or replacement."""


class Normalizer(Protocol):
    """What the core folds a request through, one by one, by name."""

    @property
    def name(self) -> str:
        """Unique; switched on and off by it, counted and logged under it."""

    @property
    def why(self) -> str:
        """One sentence: which volatile field, and what becomes of it."""

    @property
    def default(self) -> bool:
        """Whether it is on unless the user says otherwise."""

    @property
    def literals(self) -> tuple[str, ...]:
        """Plain ASCII texts of which a body must hold one, else it is not even parsed."""

    @property
    def needs_previous(self) -> bool:
        """Whether it looks at the session's previous request."""

    def edits(self, request: Request, previous: Request | None) -> Iterable[Edit]:
        """The edits for ``request``: pure, idempotent; see the hook cacheproxy_normalize."""


@dataclass(frozen=True, slots=True)
class Rule:
    r"""A declarative rule: a regex, where it may match, and the constant to put there.

    ``name``: lower-case words joined by ``-``, unique.
    ``where``: path pattern(s) (cacheproxy.core.paths) or ``system``, ``system-head``, ``user``.
    ``pattern``: Python regex; start it with ``\A`` where the text must start with it.
    ``replacement``: what a match becomes (``\1`` and ``\g<name>`` as in re.sub); if the pattern
    has a group called ``volatile``, only that group is replaced.
    ``why``: one sentence for people.
    ``default``: on unless switched off.
    ``pin``: instead of ``replacement``, the text that stood at the same place in the session's
    previous request, so that the first value seen stays.
    ``literals``: if given, a body without any of them is not looked at.

    Raises RuleError.
    """

    name: str
    where: str | tuple[str, ...]
    pattern: str
    replacement: str = ""
    why: str = ""
    default: bool = True
    pin: bool = False
    literals: tuple[str, ...] = ()
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _places: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        where = (self.where,) if isinstance(self.where, str) else tuple(self.where)
        places = tuple(place for name in where for place in NAMED.get(name, (name,)))
        try:
            for place in places:
                parse_pattern(place)
            regex = re.compile(self.pattern)
        except PathError as error:
            raise RuleError(
                f"rule {self.name!r}: {error} (or one of: {', '.join(NAMED)})"
            ) from None
        except (re.error, RecursionError, OverflowError) as error:
            raise RuleError(f"rule {self.name!r}: bad pattern: {error}") from None
        object.__setattr__(self, "_regex", regex)
        object.__setattr__(self, "_places", places)
        self._check_replacement()

    @property
    def needs_previous(self) -> bool:
        """A pin rule looks at the session's previous request."""
        return self.pin

    def edits(self, request: Request, previous: Request | None = None) -> Iterator[Edit]:
        """Yield one edit per match whose text would change."""
        for place in self._places:
            for path, text in match_paths(request.json, place):
                if not isinstance(text, str):
                    continue
                pointer = to_pointer(path)
                pinned = self._matches_at(previous, path) if self.pin else ()
                for index, found in enumerate(self._regex.finditer(text)):
                    span = self._span(found)
                    if not self.pin:
                        new = found.expand(self.replacement)
                    elif index < len(pinned):
                        new = pinned[index]
                    else:
                        break
                    if span[0] >= 0 and text[span[0] : span[1]] != new:
                        yield Edit(pointer, new, self.why, span)

    def _matches_at(self, previous: Request | None, path: tuple[str | int, ...]) -> list[str]:
        value: Any = previous.json if previous is not None else None
        try:
            for step in path:
                value = value[step]
        except (LookupError, TypeError):
            return []
        if not isinstance(value, str):
            return []
        return [value[slice(*self._span(found))] for found in self._regex.finditer(value)]

    def _span(self, found: re.Match[str]) -> tuple[int, int]:
        return found.span(VOLATILE if VOLATILE in self._regex.groupindex else 0)

    def _check_replacement(self) -> None:
        """Refuse references to groups the pattern does not have, before any request comes."""
        try:
            self._regex.sub(self.replacement, "")  # the template is read before any match
        except (re.error, IndexError) as error:
            raise RuleError(f"rule {self.name!r}: bad replacement: {error}") from None


@dataclass(frozen=True, slots=True)
class CodeRule:
    """A rule that needs code: ``find(request, previous)`` returns its edits.

    ``find`` obeys the contract of the hook cacheproxy_normalize. The other fields are those
    of Rule.
    """

    name: str
    why: str
    find: Callable[[Request, Request | None], Iterable[Edit]]
    default: bool = True
    literals: tuple[str, ...] = ()
    needs_previous: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)

    def edits(self, request: Request, previous: Request | None = None) -> Iterable[Edit]:
        """Return what ``find`` says."""
        return self.find(request, previous)


def check_name(name: str) -> None:
    """Raise RuleError unless ``name`` is lower-case words joined by hyphens."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RuleError(f"rule {name!r}: a name is lower-case words joined by '-'")
