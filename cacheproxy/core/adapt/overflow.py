"""Overflow: the error for a prompt that does not fit, in words on which the client compacts it.

Servers have a sentence each; clients look for those of the vendor whose API they speak. Sources:
Claude Code's two sentences (``core.dialects.errors``), Cline's ``context-error-handling.ts``, Qwen
Code's ``contextLengthError.ts``, pi's ``overflow.ts``; Codex's ``api_bridge.rs``, which takes no
error status for an overflow, only the event ``response.failed``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.dialects.dialect import Dialect, openai_error
from cacheproxy.core.dialects.errors import counts_in, is_overflow, too_long
from cacheproxy.core.document.edits import encode

_JSON, _EVENTS = b"application/json", b"text/event-stream"
_CODE = "context_length_exceeded"
_MESSAGES = re.compile(r"prompt is too long|exceed context limit")
_CHAT = re.compile(r"maximum context length is \d+ tokens")
"""Words that a client of Chat Completions knows, so they need no translation."""
_WINDOW = "Your input exceeds the context window of this model. Please {} and try again."


class OverflowAnswer(NamedTuple):
    """The response to the client."""

    status: int  #: HTTP status
    content_type: bytes  #: media type of the body
    body: bytes  #: error in the words of the client's API, as JSON or one event


def overflow_answer(
    refusal: Refusal, dialect: Dialect, *, streams: bool = False
) -> OverflowAnswer | None:
    """Return the error answer in the words of ``dialect``, followed by the server's own.

    None if ``refusal`` is no overflow, or if the client knows the server's words. ``streams``:
    whether the client requested a stream.
    """
    status, words = refusal.status, refusal.words
    if not is_overflow(status, words, refusal.code):
        return None
    if dialect.head_in_blocks:
        if status == 400 and _MESSAGES.search(words):
            return None
        explained = too_long(status, {"code": refusal.code}, words)
        return None if explained is None else _json(dialect, _behind(explained, words))
    if dialect.is_itemised and streams:
        message = _behind(_WINDOW.format("adjust your input"), words)
        return OverflowAnswer(200, _EVENTS, dialect.deferred_error(400, message, False))
    if status == 400 and refusal.code == _CODE:
        return None
    if dialect.is_itemised:
        return _openai(_behind(_WINDOW.format("adjust your input"), words), "input")
    if dialect.error is openai_error and not (status == 400 and _CHAT.search(words)):
        param = dialect.items or dialect.texts[0]
        return _openai(_behind(_chat(words), words), param)
    return None


def _chat(words: str) -> str:
    """Return OpenAI's message for an overflow in Chat Completions, with the counts in ``words``."""
    prompt, output, limit = counts_in(words)
    if prompt is None or limit is None:
        return _WINDOW.format("reduce the length of the messages")
    most = f"This model's maximum context length is {limit} tokens. However, "
    if output is None or prompt > limit:
        counted, what = f"your messages resulted in {prompt} tokens", "messages"
    else:
        counted = f"you requested {prompt + output} tokens ({prompt} in the messages, {output} in "
        counted, what = f"{counted}the completion)", "messages or completion"
    return f"{most}{counted}. Please reduce the length of the {what}."


def _behind(explained: str, words: str) -> str:
    """Return ``explained`` with the server's own ``words`` in brackets, unless it has them."""
    return explained if words in explained else f"{explained} (the model server: {words})"


def _json(dialect: Dialect, message: str) -> OverflowAnswer:
    return OverflowAnswer(400, _JSON, encode(dialect.error(400, message)).encode())


def _openai(message: str, param: str) -> OverflowAnswer:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": _CODE}
    return OverflowAnswer(400, _JSON, encode({"error": error}).encode())
