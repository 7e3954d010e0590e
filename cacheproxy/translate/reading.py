"""What a chat server sends, as values: JSON, tool-call arguments, texts in their several shapes."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from cacheproxy.translate.translation_error import TranslationError
from cacheproxy.translate.writing import write

Json = dict[str, Any]
SEAM = "\n"
"""Between texts that become one, as llama.cpp and vLLM join them for templates that take text."""
NOT_JSON = "INVALID_JSON"
"""The member under which a call's arguments stand that are no JSON object."""


def read(data: bytes | str) -> Any:
    """Return the JSON value ``data``. Raises TranslationError if it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # a lone surrogate, as a server that cuts between tokens may send, or no JSON
    try:
        return json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise TranslationError("the server's answer cannot be read as JSON") from None


def string_in(value: Any) -> str:
    """Return ``value`` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def tool_named(holder: Any) -> str:
    """Return the name of the tool that is called. Raises TranslationError if there is none."""
    name = string_in(holder.get("name")) if isinstance(holder, dict) else ""
    if not name:
        raise TranslationError("the server's answer has a tool call without a name")
    return name


def is_object(text: str) -> bool:
    """Whether ``text`` is a whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(read(text), dict)
    except TranslationError:
        return False


def plain_text(content: Any) -> str:
    """Return a chat message's content as text: it is a string, a list of parts, or null."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def thinking_of(message: dict[str, Any]) -> str:
    """Return the thinking in a message or delta.

    llama.cpp, SGLang and DeepSeek call it ``reasoning_content``; vLLM and OpenRouter ``reasoning``.
    """
    for name in ("reasoning_content", "reasoning"):
        found = message.get(name)
        if isinstance(found, str) and found:
            return found
    return ""


def arguments_of(function: dict[str, Any]) -> str:
    """Return the text of a call's arguments, or of a piece of them; some servers give an object."""
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        return write_plain(arguments)
    return arguments if isinstance(arguments, str) else ""


def write_plain(value: Any) -> str:
    """Return any JSON value as compact text."""
    try:
        return write(value).decode()
    except (ValueError, RecursionError):
        raise TranslationError("the server's answer is nested too deeply") from None


def choice_of(value: Any) -> dict[str, Any] | None:
    """Return the first choice of a completion or chunk, or None; other choices nobody asked for."""
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (None, 0):
            return choice
    return None


def _refuse(_: str) -> NoReturn:
    raise ValueError("not JSON")
