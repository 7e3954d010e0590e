"""What is wrong with a setting, in plain words: msgspec's errors for people."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "str | array": "text or a list of texts",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_NO_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
_EXPECTED = re.compile(
    r"Expected `(?P<kind>[^`]*)`(?: (?P<how>[<>]=?) (?P<bound>\S+))?(?:, got `(?P<got>[^`]*)`)?"
)
_HEADER = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]")


class Mistake(NamedTuple):
    """One wrong setting."""

    key: str  #: its name; "" where the table itself is wrong
    what: str  #: is to be said of it
    table: str = ""  #: the TOML table it stands in; "" for none
    number: int | None = 0  #: of the table, from 0; None for one that there is but once

    def said(self, name: str) -> str:
        """Return the sentence; ``name``: the key as it was written."""
        inside = f"[{self.table}]: " if self.table else ""
        if self.table and self.number is not None:
            inside = f"[[{self.table}]] number {self.number + 1}: "
        return inside + (f"{name} {self.what}" if self.key else self.what)

    def line(self, text: str) -> int | None:
        """Return the number of its line in ``text``, a TOML file; None if it is not seen there."""
        key = re.compile(rf"\s*[\"']?{re.escape(self.key)}[\"']?\s*=")
        table, number = "", -1 if self.table else 0
        for count, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = header[1]
                number += table == self.table
            if (table, number) != (self.table, self.number or 0):
                continue
            if key.match(line) if self.key else header:
                return count
        return None


class MistakeError(ValueError):
    """A value that cannot be converted."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.said(mistake.key))
        self.mistake = mistake


def converted(values: Any, kind: type[_Struct], *, strict: bool = True) -> _Struct:
    """Return ``values`` as ``kind``; raises MistakeError. ``strict``: no text for numbers."""
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise MistakeError(_mistake(str(error), kind)) from None


def tables(values: Sequence[Any], kind: type[_Struct], name: str) -> tuple[_Struct, ...]:
    """Return the ``[[name]]`` tables of a file, each as ``kind``; raises MistakeError."""
    found = []
    for number, table in enumerate(values):
        try:
            found.append(converted(table, kind))
        except MistakeError as error:
            raise MistakeError(error.mistake._replace(table=name, number=number)) from None
    return tuple(found)


def table(values: Any, kind: type[_Struct], name: str) -> _Struct:
    """Return the ``[name]`` table of a file as ``kind``; raises MistakeError."""
    try:
        return converted(values, kind)
    except MistakeError as error:
        raise MistakeError(error.mistake._replace(table=name, number=None)) from None


def meant(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence: which of ``known`` looks like ``name``, if any does."""
    near = get_close_matches(name, list(known), 1, 0.7)
    return f". Did you mean {near[0]}?" if near else ""


def _mistake(error: str, kind: type[msgspec.Struct]) -> Mistake:
    text, _, place = error.partition(" - at `$.")
    key = re.split(r"[.\[`]", place)[0]
    fields = kind.__struct_fields__
    if found := _NO_FIELD.match(text):
        if found[1] == "missing required":
            return Mistake("", f"{found[2]} is missing")
        return Mistake(found[2], f"is not a setting{meant(found[2], fields)}")
    if words := _words(get_type_hints(kind).get(key)):
        return Mistake(key, f"must be one of {', '.join(words)}")
    if found := _EXPECTED.match(text):
        return Mistake(key, f"must be {_kind(found)}")
    return Mistake(key, f"cannot be used: {text}")


def _kind(found: re.Match[str]) -> str:
    if "matching regex" in found.string:  # that of the token
        return "plain ASCII without spaces"
    kind = found["kind"].removesuffix(" | null")
    said, got = _KINDS.get(kind, kind), _KINDS.get(found["got"] or "")
    if found["how"]:
        return f"{said} {_BOUNDS[found['how']]} {found['bound'].removesuffix('.0')}"
    return f"{said}, not {got}" if got else said


def _words(hint: Any) -> Collection[str]:
    """Return the words that a setting of this type may have, if there are only few."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(each.value) for each in hint]
    if get_origin(hint) is Literal:
        return [word or repr(word) for word in get_args(hint)]
    inner = (_words(each) for each in get_args(hint))
    return next(filter(None, inner), ())
