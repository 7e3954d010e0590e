"""A JSON body as values, and the exact text that any of them has in it."""

from __future__ import annotations

from typing import Any

import msgspec

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.pointer import Path, PathError, to_pointer
from cacheproxy.core.document.reader import NotUnderstoodError
from cacheproxy.translate.translation_error import TranslationError

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Body:
    r"""A JSON object: ``value`` says what it means, ``text_at`` how it is spelt.

    msgspec reads it. What msgspec refuses and the standard library takes (lone surrogates such as
    ``\ud83d``, numbers beyond a double) is read by ``Document``, ten times slower.
    Raises TranslationError for anything but a JSON object in UTF-8.
    """

    def __init__(self, body: bytes) -> None:
        self._bytes = body
        self._document: Document | None = None
        self._texts: dict[Path, dict[str, msgspec.Raw] | list[msgspec.Raw]] = {}
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            try:
                self._document = Document(body)
            except NotUnderstoodError as error:
                raise TranslationError(f"the body cannot be read: {error}") from None
            value = self._document.value
        if not isinstance(value, dict):
            raise TranslationError("the body is not a JSON object")
        self.value: dict[str, Any] = value

    def text_at(self, path: Path) -> str:
        """Return the text of the value at ``path`` (not empty) as it stands in the body."""
        return bytes(self.raw_at(path)).decode()

    def raw_at(self, path: Path) -> msgspec.Raw:
        """Return the same, to be written into another JSON text."""
        if self._document is None:
            return self._raw(path)
        try:
            entry = self._document.entry(path)
        except PathError as error:  # it is there, but nested too deeply
            raise wrong(path, str(error)) from None
        return msgspec.Raw(self._document.body[entry.value_start : entry.end])

    def _raw(self, path: Path) -> msgspec.Raw:
        holder = path[:-1]
        members = self._texts.get(holder)
        if members is None:
            text = self._raw(holder) if holder else self._bytes
            members = (_ARRAY if isinstance(path[-1], int) else _OBJECT).decode(text)
            self._texts[holder] = members
        return members[path[-1]]  # type: ignore[index]  # a list by index, a dict by name


def wrong(path: Path, message: str) -> TranslationError:
    """Return the error that ``message`` is wrong with the value at ``path``."""
    return TranslationError(message, to_pointer(path))


def text_of(value: Any, path: Path) -> str:
    """Return ``value`` if it is a string; raises TranslationError naming ``path``."""
    if not isinstance(value, str):
        raise wrong(path, "a string is needed here")
    return value


def text_in(holder: dict[str, Any], name: str, path: Path) -> str:
    """Return the string ``name`` of ``holder``, which stands at ``path``; raises as ``text_of``."""
    value = holder.get(name)
    return value if isinstance(value, str) else text_of(value, (*path, name))


def object_of(value: Any, path: Path) -> dict[str, Any]:
    """Return ``value`` if it is an object; raises TranslationError naming ``path``."""
    if not isinstance(value, dict):
        raise wrong(path, "an object is needed here")
    return value


def list_of(value: Any, path: Path) -> list[Any]:
    """Return ``value`` if it is an array; raises TranslationError naming ``path``."""
    if not isinstance(value, list):
        raise wrong(path, "an array is needed here")
    return value
