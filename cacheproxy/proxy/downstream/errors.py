"""Error bodies in the client's own dialect, so that its SDK shows our message."""

from __future__ import annotations

import json
from http import HTTPStatus

from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.core.privacy.origins import Sharing
from cacheproxy.core.prompt.dialect import ANTHROPIC, OLLAMA, dialect_of

# Anthropic's API reference, "Errors": the types its SDKs know by status.
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}

# As api.openai.com answers a wrong key.
_OPENAI_CODES = {401: "invalid_api_key"}

_REASONS = {int(status): status.phrase.encode() for status in HTTPStatus}

_MORE = {401: b"WWW-Authenticate: Bearer\r\n", 503: b"Retry-After: 1\r\n"}


def reason_of(status: int) -> bytes:
    """Return the reason phrase that goes with ``status``."""
    return _REASONS.get(status, b"Unknown Status")


def error_body(path: str, status: int, message: str) -> bytes:
    """Return a JSON body saying ``message``, in the shape that clients of ``path`` expect.

    Shapes: Anthropic ``{"type":"error","error":{"type","message"}}``, Ollama
    ``{"error": "…"}``, for all others OpenAI's ``{"error":{"message","type","param","code"}}``.
    """
    message = f"cacheproxy: {message}"
    dialect = dialect_of(path)
    body: dict[str, object]
    if dialect == ANTHROPIC:
        kind = _ANTHROPIC_TYPES.get(
            status, "invalid_request_error" if status < 500 else "api_error"
        )
        body = {"type": "error", "error": {"type": kind, "message": message}}
    elif dialect == OLLAMA:
        body = {"error": message}
    else:
        kind = "invalid_request_error" if status < 500 else "server_error"
        code = _OPENAI_CODES.get(status, status)
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json.dumps(body).encode()


def refusal(asked: RequestReader, status: int, message: str, sharing: Sharing) -> bytes:
    """Return a whole answer to what has been ``asked`` so far; the connection closes behind it."""
    body = error_body(asked.path.decode("latin-1"), status, message)
    more = _MORE.get(status, b"") + b"".join([b"%b: %b\r\n" % field for field in sharing.headers])
    is_bodiless = asked.head is not None and asked.head.method == b"HEAD"  # RFC 9110, 9.3.2
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"%sConnection: close\r\n\r\n" % (status, reason_of(status), len(body), more)
    ) + (b"" if is_bodiless else body)
