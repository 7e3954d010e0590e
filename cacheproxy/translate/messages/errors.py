"""Errors of a chat server in Anthropic's shape."""

from __future__ import annotations

from typing import Any

from cacheproxy.translate.common.errors import LONGEST, details_of, message_of, read_error
from cacheproxy.translate.common.translation import Answer
from cacheproxy.translate.common.writing import write
from cacheproxy.translate.messages.overflow import too_long

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Anthropic's API reference, "Errors". A 503 stays an ``api_error``: a model that is loading is
worth a retry later, while clients meet ``overloaded_error`` by asking less or another model."""


def error_answer(status: int, body: bytes) -> Answer:
    """Return an error response for the client; its status, except where the context overflowed."""
    value, text = read_error(body)
    status, error = _error(value, text, status)
    return Answer(status, write({"type": "error", "error": error, "request_id": None}))


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
    details = details_of(value)
    if status < 400:
        code = details.get("code")
        status = code if type(code) is int and 400 <= code < 600 else 500
    message = message_of(value, details) or text or f"the server answered with status {status}"
    overflow = too_long(details, message) if status != 429 else None
    if overflow is not None:
        status, message = 400, overflow
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return status, {"type": kind, "message": message[:LONGEST]}
