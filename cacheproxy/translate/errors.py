"""Errors of a chat server in Anthropic's shape."""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.dialects.messages import error_type
from cacheproxy.translate.answer import WholeAnswer
from cacheproxy.translate.overflow import too_long
from cacheproxy.translate.writing import write

_LONGEST = 8192
"""Characters of a message that are handed on."""


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
