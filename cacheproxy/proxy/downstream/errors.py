"""Error bodies in the client's own dialect, so that its SDK shows our message."""

from __future__ import annotations

import json
from http import HTTPStatus

from cacheproxy.core.dialects.dialects import spoken
from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.core.privacy.origins import Sharing

_REASONS = {int(status): status.phrase.encode() for status in HTTPStatus}

_MORE = {401: b"WWW-Authenticate: Bearer\r\n", 503: b"Retry-After: 1\r\n"}


def reason_of(status: int) -> bytes:
    """Return the reason phrase that goes with ``status``."""
    return _REASONS.get(status, b"Unknown Status")


def error_body(path: str, status: int, message: str) -> bytes:
    """Return a JSON body saying ``message``, in the shape that clients of ``path`` expect."""
    return json.dumps(spoken(path).error(status, f"cacheproxy: {message}")).encode()


def refusal(asked: RequestReader, status: int, message: str, sharing: Sharing) -> bytes:
    """Return a whole answer to what has been ``asked`` so far; the connection closes behind it."""
    body = error_body(asked.path.decode("latin-1"), status, message)
    more = _MORE.get(status, b"") + b"".join([b"%b: %b\r\n" % field for field in sharing.headers])
    is_bodiless = asked.head is not None and asked.head.method == b"HEAD"  # RFC 9110, 9.3.2
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"%sConnection: close\r\n\r\n" % (status, reason_of(status), len(body), more)
    ) + (b"" if is_bodiless else body)
