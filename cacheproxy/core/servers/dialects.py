"""Which APIs a server serves, by its answers to an empty request."""

from __future__ import annotations

from dataclasses import replace

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import VERSION_HEADERS, beside
from cacheproxy.core.http1.headers import credentials_in
from cacheproxy.core.prompt.request import Request


def question(request: Request, dialect: Dialect) -> Request:
    """Return a request that a server of ``dialect`` turns down without evaluating anything.

    It has the credentials of ``request``, since some servers look at these first.
    """
    headers = credentials_in(request.headers, VERSION_HEADERS)
    return replace(
        request,
        method="POST",
        target=beside(request.path, dialect),
        headers=(*headers, (b"Content-Type", b"application/json")),
        body=b"{}",
    )


def is_served(status: int, body: bytes) -> bool | None:
    """Return whether the answer to ``question`` is that of a server of its dialect.

    None: it does not tell (a gateway whose server is down). LM Studio answers 200 to every path
    and says ``Unexpected endpoint`` in the body; a server that knows the path may answer 404 to
    a model it does not have, in Anthropic's form.
    """
    if status in (429, 502, 503, 504, 508):
        return None
    if status in (404, 405, 410, 501):
        return b'"not_found_error"' in body and b"model" in body
    return not (status == 200 and b"Unexpected endpoint" in body)
