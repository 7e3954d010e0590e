"""JSON values: read from servers' answers, checked in clients' requests, and written as text.

Texts and arguments of calls come in several shapes. A written value may contain finished JSON text,
so that values of a body keep their spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any, NoReturn, TypeVar

import msgspec

from cacheproxy.core.dialects.reasoning import REASONING
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.pointer import Path, PathError, to_pointer
from cacheproxy.core.prompt.request import Request

Json = dict[str, Any]
SEAM = "\n"
"""Separator of joined texts, the one of llama.cpp and vLLM for templates that take only text."""
_encode = msgspec.json.Encoder().encode
_LONE = re.compile("[\ud800-\udfff]")
_KINDS: dict[type[Any], str] = {str: "a string", dict: "an object", list: "an array"}
_T = TypeVar("_T")
_WORDS = {None: "null", True: "true", False: "false"}


class TranslationError(ValueError):
    """A request or answer that cannot be translated into the other dialect.

    ``place``: JSON pointer to the wrong value in its body, "" for the whole body.
    The message names the place and never quotes text of a user, a tool or a model.
    """

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class NoTranslationError(TranslationError):
    """A request for a server that speaks only an API into which nothing is translated.

    ``message``: text for the client, with ``{upstream}`` for the server.
    """

    def at(self, upstream: str) -> str:
        """Return the message about the server at ``upstream``."""
        return str(self).format(upstream=upstream)


def read(data: bytes | str) -> Any:
    """Return the value of the JSON text ``data``. Raises TranslationError if it is no JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # no JSON, or a lone surrogate (from a server that cuts between tokens)
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise TranslationError("the server's answer cannot be read as JSON") from None


def string_in(value: Any) -> str:
    """Return ``value`` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def is_object(text: str) -> bool:
    """Whether ``text`` is a whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(read(text), dict)
    except TranslationError:
        return False


def plain_text(content: Any) -> str:
    """Return the text of a chat message's ``content``, which is a string, parts, or null."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def thinking_of(message: dict[str, Any]) -> str:
    """Return the thinking in a chat message or delta, "" if it has none.

    llama.cpp, SGLang and DeepSeek call it ``reasoning_content``; vLLM and OpenRouter ``reasoning``.
    """
    for name in REASONING:
        found = message.get(name)
        if isinstance(found, str) and found:
            return found
    return ""


def function_in(function: Any) -> tuple[str, str]:
    """Return the name and the arguments' text of a call, or of a piece of one; "" for none.

    Arguments that are an object become text; TranslationError if they are nested too deeply.
    """
    if not isinstance(function, dict):
        return "", ""
    name, arguments = string_in(function.get("name")), function.get("arguments")
    if not isinstance(arguments, dict):
        return name, string_in(arguments)
    try:
        return name, write(arguments).decode()
    except (ValueError, RecursionError):
        raise TranslationError("the server's answer is nested too deeply") from None


def choice_of(value: Any) -> dict[str, Any] | None:
    """Return the choice with the index 0 or none in a completion or chunk; None if it has none."""
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (None, 0):
            return choice
    return None


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not JSON")


def write(value: Any) -> bytes:
    """Return ``value`` as compact JSON in UTF-8.

    ``value``: of dicts, lists, strings, ints, bools, None and ``msgspec.Raw``, whose text is
    inserted as it is. msgspec refuses strings with lone surrogates: a second encoder, with the same
    spelling otherwise, writes these as escapes.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _with_escapes("".join(_json_pieces(value))).encode()


def raw(text: str) -> msgspec.Raw:
    """Return JSON ``text`` as a value for ``write``; lone surrogates in it become escapes."""
    return msgspec.Raw(_with_escapes(text))


def _with_escapes(text: str) -> str:
    """Return ``text`` with each lone surrogate as a JSON escape."""
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _json_pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        before = "{"
        for key, inner in value.items():
            yield f"{before}{encode_basestring(key)}:"
            yield from _json_pieces(inner)
            before = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        before = "["
        for inner in value:
            yield before
            yield from _json_pieces(inner)
            before = ","
        yield "]" if value else "[]"
    elif isinstance(value, str):
        yield encode_basestring(value)
    elif isinstance(value, msgspec.Raw):
        yield bytes(value).decode()
    else:
        yield _WORDS[value] if value is None or isinstance(value, bool) else str(value)


def document_of(request: Request) -> Document:
    """Return the body of ``request``. Raises TranslationError if it is no JSON object."""
    if request.document is None:
        raise TranslationError(f"the body cannot be read: {request.not_understood}")
    return request.document


def raw_at(body: Document, path: Path) -> msgspec.Raw:
    """Return the JSON text of the value at ``path``, unchanged, as a value for ``write``."""
    try:
        entry = body.entry(path)
    except PathError as error:  # the value is nested too deeply
        raise wrong(path, str(error)) from None
    return msgspec.Raw(body.body[entry.value_start : entry.end])


def wrong(path: Path, message: str) -> TranslationError:
    """Return the error ``message`` about the value at ``path``."""
    return TranslationError(message, to_pointer(path))


def needed(kind: type[_T], value: Any, path: Path) -> _T:
    """Return ``value`` if it is a ``kind``; otherwise raises TranslationError naming ``path``."""
    if not isinstance(value, kind):
        raise wrong(path, f"{_KINDS[kind]} is needed here")
    return value


def text_in(holder: dict[str, Any], name: str, path: Path) -> str:
    """Return string member ``name`` of ``holder``, the object at ``path``; raises as ``needed``."""
    value = holder.get(name)
    return value if isinstance(value, str) else needed(str, value, (*path, name))
