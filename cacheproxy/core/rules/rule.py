"""Rules: rows in a table, each a regex, where it may match, and what becomes of a match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
from cacheproxy.core.rules.note import MOST_NOTE, Note, NoteError, again, begins, told
from cacheproxy.core.rules.places import NAMED, WITH_USER_TEXT
from cacheproxy.core.rules.second_pass import examples, is_settled

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
    _key: tuple[str, ...] = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "_key", tuple(where))
        self._check_replacement()

    @property
    def needs_previous(self) -> bool:
        """A pin rule looks at the session's previous request."""
        return self.pin

    def edits(self, request: Request, previous: Request | None = None) -> Iterator[Edit]:
        """Yield one edit per match whose text would change, and those of the notes."""
        if self._note is not None and previous is not None:
            yield from self._noted(self._note, request, previous)
        elif self.pin:
            yield from self._pins(request, previous)
        else:
            for path, text in self._texts(request):
                news = ((found, self._new(found)) for found in self._regex.finditer(text))
                yield from self._replaced(path, news)

    def _texts(self, request: Request) -> list[tuple[Path, str]]:
        """Return the texts at its places, each once; rules with equal places look there once."""
        document = request.document
        if document is None:
            return []
        notes, key = document.notes, self._key
        if key not in notes:
            found = document.match(self._places)
            texts = {path: text for path, text in found if isinstance(text, str)}
            notes[key] = list(texts.items())  # places may overlap
        return notes[key]  # type: ignore[no-any-return]

    def _pins(self, request: Request, previous: Request | None) -> Iterator[Edit]:
        """Yield the edits that put back what stood in ``previous``."""
        for path, text in self._texts(request) if previous is not None else ():
            was = _value_at(previous, path)
            if not isinstance(was, str) or was == text:
                continue
            spans = map(self._span, self._regex.finditer(was))
            pinned = [was[start:end] if start >= 0 else None for start, end in spans]
            edits = self._replaced(path, zip(self._regex.finditer(text), pinned, strict=False))
            if not self._is_users(request, path):
                yield from edits

    def _is_users(self, request: Request, path: Path) -> bool:
        """Whether a text stands in a user message behind another in which the rule finds its own.

        There the client has written before the user, who says the same.
        """
        message = _value_at(request, path[:2])
        if not isinstance(message, dict) or message.get("role") != "user":
            return False
        before = [text for place, text in self._texts(request) if path[:2] < place < path]
        return any(map(self._regex.search, before))

    def _replaced(
        self, path: Path, news: Iterable[tuple[re.Match[str], str | None]]
    ) -> Iterator[Edit]:
        """Yield an edit for each match whose text is to be another."""
        pointer = to_pointer(path)
        for found, new in news:
            start, end = self._span(found)
            if new is not None and start >= 0 and found.string[start:end] != new:
                yield Edit(pointer, new, self.why, (start, end))

    def _noted(self, note: Note, request: Request, previous: Request) -> Iterator[Edit]:
        """Yield the pinned values, the notes told before, and the one that is new, if any.

        Of several values the first that changed is told.
        """
        pins = list(self._pins(request, previous))
        if not (pins or note.is_in(previous)) or begins(request):
            return
        now = next(self._told(note, request, pins), None)
        if now is None or len(now) > MOST_NOTE:
            return
        kept = note.kept(request, previous, pins)
        yield from pins
        yield from again(request, kept)
        if now != kept[-1].notes[-1] if kept else pins:
            yield from told(request, previous, now)

    def _told(self, note: Note, request: Request, pins: Sequence[Edit]) -> Iterator[str]:
        """Yield what is to be told of each value, or only of those that ``pins`` put back."""
        places = {(edit.path, edit.span) for edit in pins}
        for path, text in self._texts(request):
            for found in self._regex.finditer(text):
                if not places or (to_pointer(path), self._span(found)) in places:
                    yield note.of(found)

    def _new(self, found: re.Match[str]) -> str | None:
        new = self.replacement
        return found.expand(new) if new is not None and "\\" in new else new

    def _span(self, found: re.Match[str]) -> tuple[int, int]:
        return found.span(VOLATILE if VOLATILE in self._regex.groupindex else 0)

    def _checked_note(self) -> Note | None:
        if self.note is None:
            return None
        if type(self.note) is not str or not self.pin:
            raise RuleError(f"rule {self.name!r}: 'note' is a text, and belongs to a pin")
        try:
            note = Note(self.note, self._regex)
        except NoteError as error:
            raise RuleError(f"rule {self.name!r}: bad note: {error}") from None
        told = (
            note.of(found) for found in map(self._regex.search, examples(self.pattern)) if found
        )
        if self._may_edit_notes and any(map(self._regex.search, told)):
            raise RuleError(f"rule {self.name!r}: bad note: the rule would find it and change it")
        return note

    @property
    def _may_edit_notes(self) -> bool:
        """Whether its places are those where notes stand: text of the user's."""
        found = (value for body in WITH_USER_TEXT for _, value in match_all(body, self._places))
        return any(isinstance(value, str) for value in found)

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
        texts = (self.replacement, *self.literals)
        if not self.pin and not is_settled(self._applied, self.pattern, texts):
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


def _value_at(request: Request | None, path: Path) -> Any:
    """Return the value at ``path``, None where there is none."""
    value: Any = request.json if request is not None else None
    try:
        for step in path:
            if isinstance(step, int) != isinstance(value, list):  # a letter is no place
                return None
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value
