"""Errors of a chat server in Anthropic's shape."""

from __future__ import annotations

import json
import re
from typing import Any

from cacheproxy.core.dialects.messages import error_type
from cacheproxy.translate.answer import WholeAnswer
from cacheproxy.translate.reading import write

_LONGEST = 8192
"""Characters of a message that are handed on."""
_SIGNS = re.compile(
    r"context[_ ](?:length|size|window)|maximum model length|exceed_context_size", re.IGNORECASE
)
# Each server has its own sentence: OpenAI and vLLM several, SGLang two, llama.cpp one.
_PROMPT = re.compile(
    r"(?<!\d)(\d+) in (?:the|your) messages|resulted in (\d+) tokens|at least (\d+) input tokens"
    r"|request has (\d+) input tokens|passed (\d+) input tokens|prompt \(length (\d+)\)"
    r"|input \((\d+) tokens\)|(?<!\d)(\d+) tokens from the input|request \((\d+) tokens\)"
)
_OUTPUT = re.compile(
    r"(?<!\d)(\d+) in the completion|requested (\d+) output tokens|is too large: (\d+)"
    r"|(?<!\d)(\d+) tokens for the completion"
)
_LIMIT = re.compile(
    r"context length (?:is only|is|of) (\d+)|maximum model length of (\d+)"
    r"|context length \((\d+) tokens|context size \((\d+) tokens"
)


def error_answer(status: int, body: bytes) -> WholeAnswer:
    """Return an error response for the client; its status, except where the context overflowed."""
    value, text = _read_error(body)
    status, error = _error(value, text, status)
    return WholeAnswer(status, write({"type": "error", "error": error, "request_id": None}))


def error_event(value: Any) -> bytes:
    """Return the event for an error in mid-stream; ``value``: what the server's event said."""
    error = _error(value, "", 200)[1]
    return b"event: error\ndata: %s\n\n" % write({"type": "error", "error": error})


def is_error(value: Any) -> bool:
    """Whether a JSON answer or event is an error: OpenAI's shape, or vLLM's older one."""
    return isinstance(value, dict) and (
        value.get("error") is not None or value.get("object") == "error"
    )


def _error(value: Any, text: str, status: int) -> tuple[int, dict[str, str]]:
    """Return the status and the ``error`` object; a ``status`` below 400 says nothing."""
    details = _details_of(value)
    if status < 400:
        code = details.get("code")
        status = code if type(code) is int and 400 <= code < 600 else 500
    message = _message_of(value, details) or text or f"the server answered with status {status}"
    overflow = too_long(details, message) if status != 429 else None
    if overflow is not None:
        status, message = 400, overflow
    return status, {"type": error_type(status), "message": message[:_LONGEST]}


def _read_error(body: bytes) -> tuple[Any, str]:
    """Return an error response's JSON value and "", or None and its text if it is no JSON."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    text = body[: 4 * _LONGEST].decode(errors="replace").strip() if value is None else ""
    return value, text


def _details_of(value: Any) -> dict[str, Any]:
    """Return the object that describes the error: the one under ``error``, or the whole."""
    inner = value.get("error") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else value if isinstance(value, dict) else {}


def _message_of(value: Any, details: dict[str, Any]) -> str:
    """Return what the server said, wherever it put it (FastAPI: ``detail``)."""
    for found in (details.get("message"), details.get("error"), details.get("detail"), value):
        if isinstance(found, str) and found.strip():
            return found.strip()
        if isinstance(found, list | dict) and found:
            try:
                return json.dumps(found, ensure_ascii=False)
            except RecursionError:
                return ""
    return ""


def too_long(error: dict[str, Any], message: str) -> str | None:
    """Return what Anthropic says of a prompt that does not fit, None if ``error`` is another one.

    Clients read these sentences, with their numbers: on the first they compact the conversation,
    on the second, where the prompt alone would fit, they ask for a shorter answer.
    """
    signs = (message, error.get("type"), error.get("code"))
    if not any(isinstance(sign, str) and _SIGNS.search(sign) for sign in signs):
        return None
    prompt, limit = error.get("n_prompt_tokens"), error.get("n_ctx")  # llama.cpp
    if type(prompt) is not int or type(limit) is not int:
        prompt, limit = _number(_PROMPT, message), _number(_LIMIT, message)
    if prompt is None or limit is None:
        return f"prompt is too long: {message}"
    output = _number(_OUTPUT, message)
    if output is not None and prompt < limit:
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return f"prompt is too long: {prompt} tokens > {limit} maximum"


def _number(wordings: re.Pattern[str], message: str) -> int | None:
    found = wordings.search(message)
    digits = found[found.lastindex] if found is not None and found.lastindex else ""
    return int(digits) if 0 < len(digits) < 16 else None
