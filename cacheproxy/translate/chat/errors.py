"""Errors of a Messages server in OpenAI's shape."""

from __future__ import annotations

import re
from typing import Any

from cacheproxy.translate.common.errors import LONGEST, details_of, message_of, read_error
from cacheproxy.translate.common.translation import Answer
from cacheproxy.translate.common.writing import write

_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 504,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 503,
}
"""Anthropic's API reference, "Errors": for an error that came without a status of its own."""
_OVERLOADED = 529
"""Anthropic's own; clients of OpenAI know 503 for it."""
_CODES = {
    401: "invalid_api_key",
    402: "insufficient_quota",
    403: "permission_denied",
    404: "not_found",
    413: "request_too_large",
    429: "rate_limit_exceeded",
    503: "server_overloaded",
    504: "timeout",
}
_TYPES = {402: "insufficient_quota", 429: "rate_limit_error"}
_TOO_LONG = re.compile(
    r"prompt is too long|exceeds? (?:the )?(?:available )?context|context[_ ](?:length|size|window)"
    r"|maximum model length|exceed_context_size",
    re.IGNORECASE,
)
_NUMBERS = (
    re.compile(r"prompt is too long: (?P<prompt>\d+) tokens > (?P<limit>\d+)"),
    re.compile(r"\((?P<prompt>\d+) tokens\) exceeds .{0,80}context size \((?P<limit>\d+) tokens"),
)


def error_answer(status: int, body: bytes) -> Answer:
    """Return an error response for the client; its status, but for 529 and overflowed contexts."""
    value, text = read_error(body)
    status, error = _error(value, text, status)
    return Answer(status, write({"error": error}))


def error_event(value: Any) -> bytes:
    """Return the event for an error in mid-stream; ``value``: what the server's event said."""
    return b"data: %s\n\n" % write({"error": _error(value, "", 200)[1]})


def is_error(value: Any) -> bool:
    """Whether a JSON answer or event is an error."""
    return isinstance(value, dict) and (
        value.get("type") == "error" or value.get("error") is not None
    )


def _error(value: Any, text: str, status: int) -> tuple[int, dict[str, str | None]]:
    """Return the status and the ``error`` object; a ``status`` below 300 says nothing."""
    details = details_of(value)
    kind = details.get("type")
    if status < 300:
        status = _STATUS.get(kind, 500) if isinstance(kind, str) else 500
    message = message_of(value, details) or text or f"the server answered with status {status}"
    if status == _OVERLOADED:
        status = 503
    signs = f"{message} {kind}" if isinstance(kind, str) else message
    if status in (400, 413, 500) and _TOO_LONG.search(signs):
        return 400, _said(_overflow(message), "invalid_request_error", "context_length_exceeded")
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return status, _said(message, kind, _CODES.get(status))


def _said(message: str, kind: str, code: str | None) -> dict[str, str | None]:
    return {"message": message[:LONGEST], "type": kind, "param": None, "code": code}


def _overflow(message: str) -> str:
    """Return OpenAI's words for a prompt that does not fit, which clients look for."""
    for numbers in _NUMBERS:
        found = numbers.search(message)
        if found is not None:
            return (
                f"This model's maximum context length is {found['limit']} tokens. However, your "
                f"messages resulted in {found['prompt']} tokens. Please reduce the length of the "
                "messages."
            )
    return message
