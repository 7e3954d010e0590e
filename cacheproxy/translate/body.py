"""A body's values, checked, and the exact text that any of them has in it."""

from __future__ import annotations

from typing import Any

import msgspec

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.pointer import Path, PathError, to_pointer
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.translation_error import TranslationError


def document_of(request: Request) -> Document:
    """Return the body of ``request``. Raises TranslationError where it is no JSON object."""
    if request.document is None:
        raise TranslationError(f"the body cannot be read: {request.not_understood}")
    return request.document


def raw_at(body: Document, path: Path) -> msgspec.Raw:
    """Return the text of the value at ``path`` as it stands there, for another JSON text."""
    try:
        entry = body.entry(path)
    except PathError as error:  # it is there, but nested too deeply
        raise wrong(path, str(error)) from None
    return msgspec.Raw(body.body[entry.value_start : entry.end])


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
