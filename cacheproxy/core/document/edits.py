"""Edits of a body, and their splicing into its own text.

Law 1: only the places that edits name change. Key order, spacing, number spelling, escapes and
duplicate keys elsewhere survive, because the text is cut and joined, never serialised again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from json.encoder import encode_basestring, encode_basestring_ascii
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from cacheproxy.core.document.compare import common_prefix, common_suffix
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.pointer import Path, index_in, parse_pointer, to_pointer
from cacheproxy.core.document.spans import Entry

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)"
)
"""Escapes in a JSON string; a pair of surrogates is one."""


class _Remove(Enum):
    """The type of REMOVE."""

    REMOVE = "REMOVE"


REMOVE: Final = _Remove.REMOVE
"""Value of an edit's ``new`` that removes the value from its object or array."""


class EditError(ValueError):
    """An edit cannot be made: no such place, wrong type, or two edits overlap."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Value of an edit's ``new`` with its exact spelling, which must be valid JSON."""

    text: str  #: JSON text


class Edit(Struct, frozen=True):
    """One change of a body, with its reason."""

    path: str  #: JSON pointer (RFC 6901) of the value to change
    new: Any  #: the new JSON value, a Raw one, or REMOVE; with a ``span``, a string
    why: str  #: one short sentence for the log
    span: tuple[int, int] | None = None
    """Start and end of the characters to replace in the string at ``path``; None: all of it."""
    adds: bool = False
    """Whether ``new`` is added, and nothing replaced (RFC 6902, section 4.1): a member comes last
    in its object, an element before the one at ``path``, or last if ``path`` ends in ``-``."""


def apply(document: Document, edits: Iterable[Edit]) -> bytes:
    """Return the document's body with ``edits`` made; the same object if nothing changes.

    Raises EditError or PathError (no such place) without having changed anything.
    """
    return splice(document.body, splices_of(document, edits))


def splices_of(document: Document, edits: Iterable[Edit]) -> list[Splice]:
    """Return the splices that ``edits`` make in the body; raises EditError or PathError."""
    whole: dict[Path, tuple[Entry, Any]] = {}
    in_strings: dict[Path, tuple[Entry, list[Edit]]] = {}
    added: dict[Path, list[str]] = {}  # entries as they are spelled
    inserted: dict[Path, list[str]] = {}
    for edit in edits:
        if not isinstance(edit, Edit):
            raise EditError(f"not an Edit but {type(edit).__name__}")
        if edit.adds:
            place, text, is_last = _addition(document, edit, added)
            (added if is_last else inserted).setdefault(place, []).append(text)
            continue
        path = document.resolve(parse_pointer(edit.path))
        entry = document.entry(path)
        if edit.span is not None:
            in_strings.setdefault(path, (entry, []))[1].append(edit)
        elif path in whole and not (whole[path][1] is REMOVE and edit.new is REMOVE):
            raise EditError("two edits overlap")
        else:
            whole[path] = entry, edit.new
    if whole:
        _refuse_overlaps(whole, in_strings, (*added, *inserted))
    splices: list[Splice] = []
    removed: dict[Path, set[int | str]] = {}
    for path, (entry, new) in whole.items():
        if new is REMOVE:
            removed.setdefault(path[:-1], set()).add(path[-1])
        else:
            splices.extend(_replace(document, entry, new))
    for path, (entry, string_edits) in in_strings.items():
        splices.extend(_inside(document, path, entry, string_edits))
    for parent, keys in removed.items():
        splices.extend(_remove(document, parent, keys))
    for path, texts in inserted.items():
        start = document.entry(path).start
        splices.append(Splice(start, start, "".join(f"{text}," for text in texts).encode()))
    for parent, texts in added.items():
        splices.append(_add(document, parent, texts, len(removed.get(parent, ()))))
    return splices


def encode(value: Any) -> str:
    """Return ``value`` as compact JSON; text stays readable unless it has lone surrogates."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return encode_basestring_ascii(value)
        return encode_basestring(value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise EditError(f"the new value is not JSON: {error}") from None
    return text


def _refuse_overlaps(
    whole: Iterable[Path], in_strings: Iterable[Path], added: Iterable[Path]
) -> None:
    """Raise EditError if an edit lies inside a value that another replaces or removes as a whole.

    The paths decide, not the actual changes: the result must not depend on the values.
    """
    inside = (*in_strings, *added)
    starts = (path[:length] for path in (*whole, *inside) for length in range(1, len(path)))
    if any(path in whole for path in (*inside, *starts)):
        raise EditError("two edits overlap")


def _addition(
    document: Document, edit: Edit, added: dict[Path, list[str]]
) -> tuple[Path, str, bool]:
    """Return the path of the container that ``edit`` adds to, the added text, and True.

    For a new element before another, return the path of that one, the text, and False.
    """
    segments = parse_pointer(edit.path)
    if not segments or edit.span is not None or edit.new is REMOVE:
        raise EditError("an edit that adds takes the path of one new value")
    parent = document.resolve(segments[:-1])
    holder = document.get(parent) if parent else document.value
    key, text = segments[-1], encode(edit.new)
    if isinstance(holder, list) and key == "-":
        return parent, text, True
    if isinstance(holder, list) and (number := index_in(key, holder)) is not None:
        return (*parent, number), text, False
    if not isinstance(holder, dict):
        raise EditError(f"nothing can be added at {to_pointer((*parent, key))}")
    name = f"{encode(key)}:"
    if key in holder or any(other.startswith(name) for other in added.get(parent, ())):
        raise EditError(f"{to_pointer((*parent, key))} already exists")
    return parent, name + text, True


def _add(document: Document, parent: Path, texts: list[str], gone: int) -> Splice:
    """Return the splice that puts ``texts`` behind the last entry of ``parent``.

    ``gone``: number of its entries that other edits remove.
    """
    container, opening = document.container((*parent, "-"))
    count = len(container.values)
    if 0 < gone == count:
        raise EditError("two edits overlap")
    end = opening + (container.ends[-1] if count else 1)
    text = ",".join(texts)
    return Splice(end, end, f",{text}".encode() if count else text.encode())


def _replace(document: Document, entry: Entry, new: Any) -> list[Splice]:
    old = entry.value
    if isinstance(old, str) and isinstance(new, str):
        if old == new:
            return []
        start = common_prefix(old, new)
        tail = common_suffix(old, new, min(len(old), len(new)) - start)
        middle = new[start : len(new) - tail]
        return _in_string(document, entry, [(start, len(old) - tail, middle)])
    text, start, end = encode(new), entry.value_start, entry.end
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() != new.keys():
        return [Splice(start, end, text.encode())]  # the old may be an image of 20 MB
    try:  # spelled alike, since for Python [1] == [True] and the order of members is nothing
        spelled = document.body[start:end].decode() if isinstance(new, Raw) else encode(old)
    except EditError:  # NaN, which is read but never written
        spelled = ""
    return [] if spelled == text else [Splice(start, end, text.encode())]


def _inside(document: Document, path: Path, entry: Entry, edits: list[Edit]) -> list[Splice]:
    if not isinstance(entry.value, str):
        raise EditError(f"{to_pointer(path)} is not a string")
    changes = []
    for edit in edits:
        if not isinstance(edit.new, str):
            raise EditError(f"a span at {to_pointer(path)} takes a string")
        if not isinstance(edit.span, tuple) or tuple(map(type, edit.span)) != (int, int):
            raise EditError("a span is a pair of whole numbers")
        start, end = edit.span
        if not 0 <= start <= end <= len(entry.value):
            raise EditError(f"a span at {to_pointer(path)} lies outside the string")
        changes.append((start, end, edit.new))
    if len(changes) > 1:
        changes.sort(key=itemgetter(0, 1))  # two insertions at one place keep their order
    return _in_string(document, entry, changes)


def _in_string(
    document: Document, entry: Entry, changes: list[tuple[int, int, str]]
) -> list[Splice]:
    size, end = len(entry.value), entry.end - 1
    inner: list[tuple[int, int, str]] = []
    behind: list[Splice] = []
    for change in changes:  # what is added at the end needs no look at the text
        if change[0] < size:
            inner.append(change)
        elif change[2]:
            behind.append(Splice(end, end, encode(change[2])[1:-1].encode()))
    if not inner:
        return behind
    literal_start = entry.value_start + 1
    literal = document.body[literal_start : entry.end - 1].decode()
    positions: list[int] = []
    for start, end, _ in inner:
        if positions and start < positions[-1]:
            raise EditError("two edits overlap")
        positions += (start, end)
    mapped = offsets_in_string(literal, positions) if "\\" in literal else positions
    if not literal.isascii():
        mapped = _in_bytes(literal, mapped)
    splices, places = [], iter(mapped)
    for start, end, new in inner:
        first, last = next(places), next(places)
        if entry.value[start:end] != new:
            inside = encode(new)[1:-1].encode()
            splices.append(Splice(literal_start + first, literal_start + last, inside))
    return splices + behind


def _in_bytes(text: str, positions: list[int]) -> list[int]:
    """Return the byte offsets in UTF-8 of ascending character ``positions`` of ``text``."""
    mapped: list[int] = []
    character = byte = 0
    for position in positions:
        byte += len(text[character:position].encode())
        character = position
        mapped.append(byte)
    return mapped


def _remove(document: Document, parent: Path, keys: set[int | str]) -> list[Splice]:
    """Return splices that cut entries up to the next one, the last ones from the end before."""
    entries = document.siblings((*parent, next(iter(keys))))
    gone = [entry.key in keys for entry in entries]
    if all(gone):
        return [Splice(entries[0].start, entries[-1].end, b"")]
    last_kept = max(i for i, cut in enumerate(gone) if not cut)
    return [
        Splice(entries[i].start, entries[i + 1].start, b"")
        if i < last_kept
        else Splice(entries[i - 1].end, entries[i].end, b"")
        for i, cut in enumerate(gone)
        if cut
    ]


def splice(body: bytes, splices: list[Splice]) -> bytes:
    """Return ``body`` after ``splices``, the same object if nothing changes; raises EditError."""
    pieces: list[bytes | memoryview] = []
    position, view = 0, memoryview(body)
    for start, end, new in sorted(splices, key=itemgetter(0, 1)):
        if start < position:
            raise EditError("two edits overlap")
        pieces += (view[position:start], new)
        position = end
    if not pieces:
        return body
    pieces.append(view[position:])
    spliced = b"".join(pieces)
    return body if spliced == body else spliced


def offsets_in_string(literal: str, positions: list[int]) -> list[int]:
    r"""Return the offsets in a JSON ``literal`` of ascending ``positions`` in its decoded string.

    ``literal`` is the text between the quotes. An escape counts as one character, a pair of
    surrogate escapes (``\ud83d\ude00``) as one too (RFC 8259, section 7).
    """
    if "\\" not in literal:
        return positions
    mapped: list[int] = []
    raw = decoded = 0
    escapes = _ESCAPE.finditer(literal)
    escape = next(escapes, None)
    for position in positions:
        while escape is not None and position > decoded + escape.start() - raw:
            raw, decoded = escape.end(), decoded + escape.start() - raw + 1
            escape = next(escapes, None)
        mapped.append(raw + position - decoded)
    return mapped
