"""Rules: rows in a table, each a regex, where it may match, and what becomes of a match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.core.document.edits import Edit
from cacheproxy.core.document.pointer import (
    Path,
    PathError,
    Pattern,
    match_all,
    parse_pattern,
    to_pointer,
)
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.normalizer import (
    RuleError,
    are_texts,
    check_client,
    check_literals,
    check_name,
    check_types,
    on_one_line,
)
from cacheproxy.core.rules.note import MOST_NOTE, Note, NoteError, again, told
from cacheproxy.core.rules.places import NAMED
from cacheproxy.core.rules.second_pass import is_settled

VOLATILE = "volatile"
"""A regex group of this name is the only part of a match that is replaced."""
MOST_REPLACEMENT = 64 << 10
"""Characters of a replacement: it stands for a stamp or an id, and may be put in many places."""


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
    ``note``: of a pin: what the model is told when the value changes, once, behind the user's
    newest message; ``\g<volatile>`` is the new value. It stays there in later turns (see note.py).
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
    note: str | None = None
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _places: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)
    _note: Note | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        check_literals(self.name, self.literals)
        check_types(self.name, why=(self.why, str), default=(self.default, bool))
        check_types(self.name, pin=(self.pin, bool))
        check_client(self.name, self.client)
        where = (self.where,) if isinstance(self.where, str) else self.where
        if not where or not are_texts(where):
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
            raise RuleError(f"rule {self.name!r}: bad pattern: {on_one_line(error)}") from None
        if not isinstance(regex.pattern, str):
            raise RuleError(f"rule {self.name!r}: bad pattern: not text")
        object.__setattr__(self, "_regex", regex)
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_note", self._checked_note())
        self._check_replacement()

    @property
    def needs_previous(self) -> bool:
        """A pin rule looks at the session's previous request."""
        return self.pin

    def edits(self, request: Request, previous: Request | None = None) -> Iterator[Edit]:
        """Yield one edit per match whose text would change, and those of the notes."""
        if self._note is None:
            for found in self._found(request):
                yield from self._edits_at(*found, previous)
        elif previous is not None:
            yield from self._noted(self._note, request, previous)

    def _found(self, request: Request) -> Iterator[tuple[Path, list[re.Match[str]]]]:
        seen = set()  # places may overlap: "system" and "system-head"
        for path, text in match_all(request.json, self._places):
            if not isinstance(text, str) or path in seen:
                continue
            seen.add(path)
            matches = list(self._regex.finditer(text))
            if matches:
                yield path, matches

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

    def _noted(self, note: Note, request: Request, previous: Request) -> Iterator[Edit]:
        """Yield the pinned values, the notes told before, and the one that is new, if any.

        Of several values the first that changed is told.
        """
        pins: list[Edit] = []
        first: re.Match[str] | None = None
        for path, matches in self._found(request):
            edits = list(self._edits_at(path, matches, previous))
            if edits and not pins:
                first = next(one for one in matches if self._span(one) == edits[0].span)
            first, pins = first or matches[0], pins + edits
        if first is None or not (pins or note.is_in(previous)):
            return
        now = note.of(first)
        if len(now) > MOST_NOTE:
            return
        kept = note.kept(request, previous, pins)
        yield from pins
        yield from again(request, kept)
        if now != kept[-1].notes[-1] if kept else pins:
            yield from told(request, previous, now)

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

    def _checked_note(self) -> Note | None:
        if self.note is None:
            return None
        if type(self.note) is not str or not self.pin:
            raise RuleError(f"rule {self.name!r}: 'note' is a text, and belongs to a pin")
        try:
            return Note(self.note, self._regex)
        except NoteError as error:
            raise RuleError(f"rule {self.name!r}: bad note: {error}") from None

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
            raise RuleError(f"rule {self.name!r}: bad replacement: {on_one_line(error)}") from None
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
