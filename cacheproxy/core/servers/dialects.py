"""Which APIs a server serves, by its answers to an empty request."""

from __future__ import annotations

from dataclasses import replace

from cacheproxy.core.http1.headers import credentials_in
from cacheproxy.core.prompt.dialect import ANTHROPIC, CHAT
from cacheproxy.core.prompt.request import Request

PATHS = {ANTHROPIC: "/messages", CHAT: "/chat/completions"}
"""How the path of each API ends. Whatever stands before it (``/v1``) is the same for both."""
_VERSION = frozenset({b"anthropic-version"})


def is_prompt(request: Request) -> bool:
    """Whether ``request`` is one that both APIs have: a prompt to be answered, or to be counted.

    Another proxy's ``question`` is none, so that two of them never ask each other.
    """
    path = request.path.rstrip("/").removesuffix("/count_tokens")
    return path.endswith(tuple(PATHS.values())) and "messages" in (request.json or {})


def question(request: Request, dialect: str) -> Request:
    """Return a request that a server of ``dialect`` turns down without evaluating anything.

    It has the credentials of ``request``, since some servers look at these first.
    """
    assert request.dialect is not None
    head = request.path.rstrip("/").removesuffix("/count_tokens")
    head = head.removesuffix(PATHS[request.dialect])
    headers = credentials_in(request.headers, _VERSION)
    return replace(
        request,
        method="POST",
        target=head + PATHS[dialect],
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
