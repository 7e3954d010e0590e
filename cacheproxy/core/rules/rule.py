"""Declarative rules: rows of a table, each with a regex, its places, and a replacement or pin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import Any

from regex import Match

from cacheproxy.core.dialects.dialects import LISTS
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.document.pointer import (
    Path,
    PathError,
    Places,
    leads_to,
    match_all,
    places_of,
    to_pointer,
)
from cacheproxy.core.document.search import Search, SearchPattern, SlowPatternError
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request, messages_of
from cacheproxy.core.rules.checks import (
    RuleError,
    are_texts,
    check_fields,
    check_template,
    examples,
    is_settled,
    on_one_line,
)
from cacheproxy.core.rules.note import MOST_NOTE, Note, NoteError, again, begins, note_edit
from cacheproxy.core.rules.places import NAMED, WITH_USER_TEXT

VOLATILE = "volatile"
"""Name of the regex group that is the only part of a match to be replaced."""
MOST_REPLACEMENT = 64 << 10
"""Characters of a replacement at most: it stands for a stamp or id, and may go in many places."""
_LONGEST_CACHED = 64 << 10
"""Characters of a text at most, for its form without pinned values to be cached."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A declarative rule: a regex, the places where it may match, and what replaces a match.

    A rule has a replacement or is a pin. Raises RuleError for fields that cannot work.
    """

    name: str  #: unique name: lower-case words joined by ``-``
    where: str | tuple[str, ...]
    """Path pattern(s) (core.document.pointer) or ``system``, ``system-head``, ``user``."""
    pattern: str  #: Python regex, searched anywhere in a text; ``\A`` ties it to the text's start
    replacement: str | None = None
    r"""Text for a match (``\1`` and ``\g<name>`` as in re.sub; ``""`` deletes it); if the pattern
    has a group called ``volatile``, only that group is replaced."""
    why: str = ""  #: reason for the rule: one sentence for people
    default: bool = True  #: whether it is on unless switched off
    pin: bool = False
    """Whether a match becomes, instead of ``replacement``, the text at the same place in the
    session's previous request, so that the first value seen stays."""
    literals: tuple[str, ...] = ()  #: texts of which a body must have one for the rule to run
    client: Client | None = None
    """Client whose requests the rule edits; None: the client of the rule's package
    (``cacheproxy_client``), or every client if it has no package."""
    note: str | None = None
    r"""Text of a pin for the model when the value changes, added once behind the user's newest
    message; ``\g<volatile>`` is the new value. It stays there in later turns (see note.py)."""
    _pattern: SearchPattern = field(init=False, repr=False, compare=False)  #: compiled ``pattern``
    _places: Places = field(init=False, repr=False, compare=False)  #: parsed ``where``
    _key: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """``where`` as the key of the texts found there, among a document's notes."""
    _note: Note | None = field(init=False, repr=False, compare=False)  #: parsed ``note``
    _group: str | int = field(init=False, repr=False, compare=False)  #: group that is replaced

    def __post_init__(self) -> None:
        check_fields(self, "default", "pin")
        where = (self.where,) if isinstance(self.where, str) else self.where
        if not where or not are_texts(where):
            raise self._wrong("'where' must be a place or a list of places")
        names = [place for name in where for place in NAMED.get(name, (name,))]
        try:
            places = places_of(names)
            pattern = SearchPattern(self.pattern) if type(self.pattern) is str else None
        except PathError as error:
            raise self._wrong(f"{error} (or one of: {', '.join(NAMED)})") from None
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(f"bad pattern: {on_one_line(error)}") from None
        if pattern is None:
            raise self._wrong("bad pattern: not text")
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_key", tuple(where))
        object.__setattr__(self, "_note", self._checked_note())
        object.__setattr__(self, "_group", VOLATILE if VOLATILE in pattern.groupindex else 0)
        if self.replacement is None:
            if self.pin:
                return
            raise self._wrong(
                "say what a match becomes: replacement = '…' (replacement = '' deletes it), or "
                "pin = true"
            )
        if not isinstance(self.replacement, str):
            raise self._wrong("bad replacement: not text")
        if len(self.replacement) > MOST_REPLACEMENT:
            raise self._wrong(f"bad replacement: more than {MOST_REPLACEMENT:,} characters")
        try:
            check_template(self.replacement, self.pattern)
        except (re.error, IndexError) as error:
            raise self._wrong(f"bad replacement: {on_one_line(error)}") from None
        texts = (self.replacement, *self.literals)
        search = self._pattern.within()
        if not self.pin and not is_settled(partial(self._applied, search), self.pattern, texts):
            raise self._wrong(
                "bad replacement: the rule would find the replacement and change it again"
            )

    def _wrong(self, what: str) -> RuleError:
        return RuleError(f"rule {self.name!r}: {what}")

    @property
    def needs_previous(self) -> bool:
        """Whether the rule reads the session's previous request, as pins do."""
        return self.pin

    def edits(self, request: Request, previous: Request | None = None) -> tuple[Edit, ...]:
        """Return an edit for each match whose text changes, and the edits of notes.

        ``previous``: the session's request before; a pin does nothing without it. Raises
        SlowPatternError.
        """
        texts = self._texts(request)
        if not texts:
            return ()
        search = self._pattern.within(len(request.body))
        if self.pin:
            if previous is None:
                return ()
            if self._note is not None:
                return tuple(self._noted(search, self._note, request, previous))
            return tuple(self._pins(search, request, previous))
        new, edits = self.replacement or "", []
        has_groups = "\\" in new
        for path, text in texts:
            for found in search.finditer(text):
                put = found.expand(new) if has_groups else new
                start, end = found.span(self._group)
                if start >= 0 and text[start:end] != put:
                    edits.append(Edit(to_pointer(path), put, self.why, (start, end)))
        return tuple(edits)

    def lasting(self, request: Request, pointer: str, text: str) -> str:
        """Return ``text`` at ``pointer`` without its pinned values; raises SlowPatternError.

        Two texts for which this is equal differ in the volatile field alone.
        """
        places = chain.from_iterable(self._places.values())
        if not any(leads_to(request.json, place, pointer) for place in places):
            return text
        cut = _cut if len(text) <= _LONGEST_CACHED else _cut.__wrapped__
        return cut(self.pattern, text)

    def _texts(self, request: Request) -> list[tuple[Path, str]]:
        """Return the texts at the rule's places, each once; rules with equal places share them."""
        document = request.document
        if document is None:
            return []
        notes, key = document.notes, self._key
        if key not in notes:
            notes[key] = document.texts(self._places)
        texts: list[tuple[Path, str]] = notes[key]
        return texts

    def _pins(self, search: Search, request: Request, previous: Request) -> list[Edit]:
        """Return the edits that put back the values of ``previous``."""
        edits: list[Edit] = []
        texts, before = self._texts(request), previous.json
        if texts is self._texts(previous):
            return edits
        for path, text in texts:
            was = _value_at(before, path)
            if not isinstance(was, str) or was == text or not _is_agreed(request, path):
                continue
            spans = [found.span(self._group) for found in search.finditer(was)]
            pinned = [was[start:end] if start >= 0 else None for start, end in spans]
            put = list(self._replaced(path, search.finditer(text), pinned))
            if not self._is_users(search, request, path):
                edits += put
        return edits

    def _is_users(self, search: Search, request: Request, path: Path) -> bool:
        """Whether the text at ``path`` is the user's own, which happens to match the rule.

        That is assumed of a text in a user message behind another one that matches: the client puts
        its values before the user's words.
        """
        message = _value_at(request.json, path[:2])
        if not isinstance(message, dict) or message.get("role") != "user":
            return False
        before = [text for place, text in self._texts(request) if path[:2] < place < path]
        return any(map(search.search, before))

    def _replaced(
        self, path: Path, matches: Iterable[Match[str]], news: Iterable[str | None]
    ) -> Iterator[Edit]:
        """Yield an edit for each match that differs from its new text in ``news`` (None: none)."""
        for found, new in zip(matches, news, strict=False):
            start, end = found.span(self._group)
            if new is not None and start >= 0 and found.string[start:end] != new:
                yield Edit(to_pointer(path), new, self.why, (start, end))

    def _noted(
        self, search: Search, note: Note, request: Request, previous: Request
    ) -> Iterator[Edit]:
        """Yield the edits for the pinned values, the notes of earlier turns, and a new note if any.

        If several values changed, the note is on the first.
        """
        pins = self._pins(search, request, previous)
        if not (pins or note.is_in(previous)):
            return
        # A question asked anew each day has no values to preserve; a compacted conversation has.
        if begins(request) and (begins(previous) or not _is_compacted(request)):
            return
        now = next(self._note_texts(search, note, request, pins), None)
        if now is None or len(now) > MOST_NOTE:
            return
        kept = note.noted(request, previous, pins)
        kept = [one for one in kept if one.number < request.agreed]
        yield from pins
        yield from again(request, kept)
        if now != kept[-1].notes[-1] if kept else pins:
            yield from note_edit(request, previous, now)

    def _note_texts(
        self, search: Search, note: Note, request: Request, pins: Sequence[Edit]
    ) -> Iterator[str]:
        """Yield the note on each value, or only on those that ``pins`` replace, if any."""
        places = {(edit.path, edit.span) for edit in pins}
        for path, text in self._texts(request):
            for found in search.finditer(text):
                if not places or (to_pointer(path), found.span(self._group)) in places:
                    yield note.of(found)

    def _checked_note(self) -> Note | None:
        if self.note is None:
            return None
        if type(self.note) is not str or not self.pin:
            raise self._wrong("'note' must be a text, and needs pin = true")
        try:
            note = Note(self.note, self._pattern)
        except NoteError as error:
            raise self._wrong(f"bad note: {error}") from None
        if self._may_edit_notes and self._finds_its_own(note):
            raise self._wrong("bad note: the rule would find the note and change it")
        return note

    def _finds_its_own(self, note: Note) -> bool:
        """Whether the rule's pattern matches its own note on an example."""
        search = self._pattern.within()
        matches = map(search.search, examples(self.pattern))
        try:
            return any(search.search(note.of(found)) for found in matches if found)
        except SlowPatternError:
            return False

    @property
    def _may_edit_notes(self) -> bool:
        """Whether the rule's places include user text, where notes are put."""
        places = [*chain.from_iterable(self._places.values())]
        return any(any(match_all(body, places, str)) for body in WITH_USER_TEXT)

    def _applied(self, search: Search, text: str) -> str:
        """Return ``text`` after the rule."""
        matches, new = list(search.finditer(text)), self.replacement or ""
        news = (found.expand(new) if "\\" in new else new for found in matches)
        return _with(text, (found.span(self._group) for found in matches), news)


@lru_cache(maxsize=128)
def _cut(pattern: str, text: str) -> str:
    """Return ``text`` without the values that a pin's ``pattern`` finds; cached for later turns."""
    search = SearchPattern(pattern)
    group = VOLATILE if VOLATILE in search.groupindex else 0
    spans = (found.span(group) for found in search.within(len(text)).finditer(text))
    return _with(text, spans, repeat("\0"))


def _with(text: str, spans: Iterable[tuple[int, int]], news: Iterable[str]) -> str:
    """Return ``text`` with ``news`` at ``spans``, but for spans of groups that did not match."""
    pieces, end = [], 0
    for (start, stop), new in zip(spans, news, strict=False):
        if start >= end:
            pieces += [text[end:start], new]
            end = stop
    return "".join([*pieces, text[end:]])


def _is_agreed(request: Request, path: Path) -> bool:
    """Whether ``path`` leads into a message that the request before has too, or into none.

    In any other message, the same field may belong to another conversation.
    """
    number = path[1] if path[1:] and path[0] in LISTS else -1
    return not isinstance(number, int) or number < request.agreed


def _is_compacted(request: Request) -> bool:
    """Whether none of the messages that the request before has as well is a user's."""
    _, items = messages_of(request)
    return all(item.get("role") != "user" for item in items[: request.agreed])


def _value_at(value: Any, path: Path) -> Any:
    """Return the value at ``path`` in a JSON value, None if there is none."""
    holder = None
    try:
        for step in path:
            holder, value = value, value[step]
    except (LookupError, TypeError):
        return None
    return None if type(holder) is str else value  # a character is no place
