"""Rules: named normalizers, most of them a row in a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from cacheproxy.core.document.edits import Edit
from cacheproxy.core.document.pointer import (
    Path,
    PathError,
    Pattern,
    match_all,
    parse_pattern,
    to_pointer,
)
from cacheproxy.core.prompt.client import EVERY, Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.places import NAMED
from cacheproxy.core.rules.second_pass import is_settled

RULE_FIELDS = ("name", "why", "default", "literals", "needs_previous", "edits")
"""What every normalizer has."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MOST_NAME = 100
"""Characters of a rule's name, which stands in log lines."""
VOLATILE = "volatile"
"""A regex group of this name is the only part of a match that is replaced."""
MOST_REPLACEMENT = 64 << 10
"""Characters of a replacement: it stands for a stamp or an id, and may be put in many places."""


_Function = TypeVar("_Function", bound=Callable[..., Any])


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

    @property
    def client(self) -> Client | None:
        """Whose requests it edits; None: everybody's."""

    def edits(self, request: Request, previous: Request | None) -> Iterable[Edit]:
        """The edits for ``request``: pure, idempotent; see the hook cacheproxy_normalize."""


@dataclass(frozen=True, slots=True)
class Rule:
    r"""A declarative rule: a regex, where it may match, and the constant to put there.

    ``name``: lower-case words joined by ``-``, unique.
    ``where``: path pattern(s) (core.document.pointer) or ``system``, ``system-head``, ``user``.
    ``pattern``: Python regex; start it with ``\A`` where the text must start with it.
    ``replacement``: what a match becomes (``\1`` and ``\g<name>`` as in re.sub; ``""``: it goes);
    if the pattern has a group called ``volatile``, only that group is replaced.
    ``why``: one sentence for people.
    ``default``: on unless switched off.
    ``pin``: instead of ``replacement``, the text that stood at the same place in the session's
    previous request, so that the first value seen stays.
    ``literals``: if given, a body without any of them is not looked at.
    ``client``: whose requests it edits; None: its package's client's (``cacheproxy_client``), or
    everybody's where it belongs to no package.

    A rule has a replacement or is a pin. Raises RuleError.
    """

    name: str
    where: str | tuple[str, ...]
    pattern: str
    replacement: str | None = None
    why: str = ""
    default: bool = True
    pin: bool = False
    literals: tuple[str, ...] = ()
    client: Client | None = None
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _places: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        check_literals(self.name, self.literals)
        _check_types(self.name, why=(self.why, str), default=(self.default, bool))
        _check_types(self.name, pin=(self.pin, bool))
        check_client(self.name, self.client)
        where = (self.where,) if isinstance(self.where, str) else self.where
        if not where or not _are_texts(where):
            raise RuleError(f"rule {self.name!r}: 'where' is a place or a list of places")
        names = [place for name in where for place in NAMED.get(name, (name,))]
        try:
            places = tuple(map(parse_pattern, names))
            regex = re.compile(self.pattern)
        except PathError as error:
            raise RuleError(
                f"rule {self.name!r}: {error} (or one of: {', '.join(NAMED)})"
            ) from None
        except (re.error, RecursionError, OverflowError, TypeError) as error:
            raise RuleError(f"rule {self.name!r}: bad pattern: {_line(error)}") from None
        if not isinstance(regex.pattern, str):
            raise RuleError(f"rule {self.name!r}: bad pattern: not text")
        object.__setattr__(self, "_regex", regex)
        object.__setattr__(self, "_places", places)
        self._check_replacement()

    @property
    def needs_previous(self) -> bool:
        """A pin rule looks at the session's previous request."""
        return self.pin

    def edits(self, request: Request, previous: Request | None = None) -> Iterator[Edit]:
        """Yield one edit per match whose text would change."""
        seen = set()  # places may overlap: "system" and "system-head"
        for path, text in match_all(request.json, self._places):
            if not isinstance(text, str) or path in seen:
                continue
            seen.add(path)
            matches = list(self._regex.finditer(text))
            if matches:
                yield from self._edits_at(path, matches, previous)

    def _edits_at(
        self, path: Path, matches: list[re.Match[str]], previous: Request | None
    ) -> Iterator[Edit]:
        pointer = to_pointer(path)
        pinned = self._matches_at(previous, path) if self.pin else []
        for index, found in enumerate(matches):
            start, end = self._span(found)
            new = self._new(found)
            if self.pin:
                new = pinned[index] if index < len(pinned) else None
            if new is not None and start >= 0 and found.string[start:end] != new:
                yield Edit(pointer, new, self.why, (start, end))

    def _new(self, found: re.Match[str]) -> str | None:
        new = self.replacement
        return found.expand(new) if new is not None and "\\" in new else new

    def _matches_at(self, previous: Request | None, path: Path) -> list[str | None]:
        """The matches in the string at ``path``; None where ``volatile`` took no part."""
        value: Any = previous.json if previous is not None else None
        try:
            for step in path:
                if isinstance(step, int) != isinstance(value, list):  # a letter is no place
                    return []
                value = value[step]
        except (LookupError, TypeError):
            return []
        if not isinstance(value, str):
            return []
        spans = map(self._span, self._regex.finditer(value))
        return [value[start:end] if start >= 0 else None for start, end in spans]

    def _span(self, found: re.Match[str]) -> tuple[int, int]:
        return found.span(VOLATILE if VOLATILE in self._regex.groupindex else 0)

    def _check_replacement(self) -> None:
        """Refuse what can be told to be wrong before any request comes.

        References to groups that the pattern does not have, and a result that the rule would find
        and change once more (law 3).
        """
        if self.replacement is None:
            if self.pin:
                return
            raise RuleError(
                f"rule {self.name!r}: say what a match becomes: replacement = '…' "
                "(replacement = '' takes it out), or pin = true"
            )
        if not isinstance(self.replacement, str):
            raise RuleError(f"rule {self.name!r}: bad replacement: not text")
        if len(self.replacement) > MOST_REPLACEMENT:
            raise RuleError(
                f"rule {self.name!r}: bad replacement: more than {MOST_REPLACEMENT:,} characters"
            )
        try:
            self._regex.sub(self.replacement, "")  # the template is read before any match
        except (re.error, IndexError) as error:
            raise RuleError(f"rule {self.name!r}: bad replacement: {_line(error)}") from None
        examples = (self.replacement, *self.literals)
        if not self.pin and not is_settled(self._applied, self.pattern, examples):
            raise RuleError(
                f"rule {self.name!r}: bad replacement: the rule would find it and change it again"
            )

    def _applied(self, text: str) -> str:
        """Return ``text`` after the rule."""
        pieces, end = [], 0
        for found in self._regex.finditer(text):
            start, stop = self._span(found)
            if start >= 0:
                pieces += [text[end:start], self._new(found) or ""]
                end = stop
        return "".join([*pieces, text[end:]])


@dataclass(frozen=True, slots=True)
class CodeRule:
    """A rule that needs code: ``find(request, previous)`` returns its edits.

    ``find`` obeys the contract of the hook cacheproxy_normalize. The other fields are those
    of Rule. It is called in a thread with a deadline, unless ``find`` is ``quick``.

    Raises RuleError.
    """

    name: str
    why: str
    find: Callable[[Request, Request | None], Iterable[Edit]]
    default: bool = True
    literals: tuple[str, ...] = ()
    needs_previous: bool = False
    client: Client | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_literals(self.name, self.literals)
        _check_types(self.name, why=(self.why, str), default=(self.default, bool))
        _check_types(self.name, needs_previous=(self.needs_previous, bool))
        check_client(self.name, self.client)
        if not callable(self.find):
            raise RuleError(f"rule {self.name!r}: 'find' is no function")

    def edits(self, request: Request, previous: Request | None = None) -> Iterable[Edit]:
        """Return what ``find`` says."""
        return self.find(request, previous)


def quick(function: _Function) -> _Function:
    """Mark a plugin's function as one that never takes long, whatever the body.

    It is called where the bytes are relayed, without a thread and without a deadline: each
    millisecond that it takes, all streams wait. To be put on a ``CodeRule``'s function, and under
    ``@hookimpl``.
    """
    function.quick = True  # type: ignore[attr-defined]
    return function


def is_quick(rule: Normalizer) -> bool:
    """Whether the function of ``rule`` is marked as ``quick``."""
    return type(rule) is CodeRule and getattr(rule.find, "quick", False) is True


def client_name(rule: Normalizer) -> str:
    """Return for which client ``rule`` is; ``*``: for all."""
    return EVERY if rule.client is None else rule.client.name


def settled(rule: Normalizer, client: Client | None = None) -> Rule | CodeRule:
    """Return ``rule`` as one of the two classes above, whose fields stay what they are now.

    ``client``: whose it is if it does not say so itself. Raises RuleError.
    """
    said: Client | None = getattr(rule, "client", None)
    client = client if said is None else said
    if type(rule) is Rule:
        return rule if client is said else replace(rule, client=client)
    literals = tuple(rule.literals) if isinstance(rule.literals, list) else rule.literals
    if type(rule) is CodeRule:
        return replace(rule, literals=literals, client=client)
    return CodeRule(
        name=rule.name,
        why=rule.why,
        find=rule.edits,
        default=rule.default,
        literals=literals,
        needs_previous=rule.needs_previous,
        client=client,
    )


def check_name(name: str) -> None:
    """Raise RuleError unless ``name`` is lower-case words joined by hyphens."""
    if type(name) is not str or len(name) > MOST_NAME or not _NAME.fullmatch(name):
        raise RuleError(f"rule {_shown(name)}: a name is lower-case words joined by '-'")


def check_client(name: str, client: Any) -> None:
    """Raise RuleError unless ``client`` is a Client, or None."""
    if client is not None and type(client) is not Client:
        raise RuleError(f"rule {name!r}: 'client' is no Client")


def check_literals(name: str, literals: Any) -> None:
    """Raise RuleError unless ``literals`` are ASCII texts: JSON may spell others with escapes."""
    if not _are_texts(literals) or not all(map(_is_plain, literals)):
        raise RuleError(f"rule {name!r}: 'literals' is a list of plain ASCII texts")


def _check_types(name: str, **fields: tuple[object, type]) -> None:
    for field_name, (value, kind) in fields.items():
        if type(value) is not kind:
            raise RuleError(f"rule {name!r}: '{field_name}' is no {kind.__name__}")


def _are_texts(values: Any) -> bool:
    return isinstance(values, tuple | list) and all(type(text) is str for text in values)


def _is_plain(text: str) -> bool:
    return text != "" and text.isascii()


def _shown(name: Any) -> str:
    """A name that is none, to be shown in an error: its text is another's, and may be long."""
    return repr(name[:MOST_NAME]) if type(name) is str else f"of type {type(name).__name__}"


def _line(error: Exception) -> str:
    """What ``error`` says on one line: a pattern it quotes may have several."""
    return " ".join(str(error).split())
