"""Which captured requests are sent, and what of each is changed: as little as can be.

Law 1 holds here too: the token limit, the stream flag, and the model if one is named are spliced
into the body's own text; the rest stays as it was captured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.dialects.ollama import OLLAMA
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.privacy.redact import REDACTED
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.record.exchange import Exchange

_NOT_SENT = frozenset(
    {
        *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect"),
        *("host", "content-length", "content-type", "accept-encoding", "proxy-connection"),
        *("authorization", "x-api-key", "api-key", "cookie", "proxy-authorization", "via"),
    }
)
"""Headers of the connection of then, and credentials."""

_PLAIN = re.compile(r"[\x20-\x7e\t]*")
_WHY = "replayed"


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request to be sent."""

    number: int  #: from 1, as people see it
    request: Request  #: as it is sent, but for mark and rules


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What is sent."""

    items: tuple[PlannedRequest, ...]  #: in the order of the capture
    answers: int  #: tokens that each may generate at most
    left_out: tuple[str, ...] = ()  #: what is not sent, and why, in words


def plan(captured: Iterable[Exchange], *, answers: int = 1, model: str | None = None) -> ReplayPlan:
    """Return the requests to send, each asking for ``answers`` tokens at most."""
    ready: list[Request] = []
    reasons: dict[str, int] = {}
    for one in captured:
        why = _unfit(one.received)
        if why is None:
            ready.append(prepared(one.received, answers=answers, model=model))
        elif why:
            reasons[why] = reasons.get(why, 0) + 1
    items = tuple(PlannedRequest(number, request) for number, request in enumerate(ready, start=1))
    left_out = tuple(
        f"{count} request{'s' if count > 1 else ''}: {why}" for why, count in reasons.items()
    )
    return ReplayPlan(items, answers, left_out)


def prepared(request: Request, *, answers: int, model: str | None = None) -> Request:
    """Return ``request`` as it is sent: limited to ``answers`` tokens, streamed.

    Streamed, since the time to the first token cannot be told from the time to the last else.
    """
    body, dialect = request.json, request.dialect
    assert body is not None
    assert dialect is not None
    wanted = dialect.limited(body, answers)
    if dialect is not OLLAMA or body.get("stream") is False:
        wanted["stream"] = True
    if dialect is CHAT:  # else most servers say nothing of usage when they stream
        options = body.get("stream_options")
        wanted["stream_options"] = (options if isinstance(options, dict) else {}) | {
            "include_usage": True
        }
    if model is not None:
        wanted["model"] = model
    return replace(
        with_members(request, wanted),
        target=_target(request),
        headers=tuple(_kept(request.headers)),
    )


def with_members(request: Request, members: dict[str, Any]) -> Request:
    """Return ``request`` with these members of its body, changed in place or put at its start."""
    document, body = request.document, request.json
    assert document is not None
    assert body is not None
    text = apply(
        document, [Edit(f"/{name}", new, _WHY) for name, new in members.items() if name in body]
    ).decode()
    added = {name: new for name, new in members.items() if name not in body}
    if added:
        start = text.index("{") + 1
        comma = "," if body else ""
        text = text[:start] + json.dumps(added, separators=(",", ":"))[1:-1] + comma + text[start:]
    return request.with_text(text)


def headers_of(request: Request, more: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send, with ``more``, which hold the key if there is one."""
    captured = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return captured | dict(more)


def _unfit(request: Request) -> str | None:
    """Return why ``request`` is not sent, empty if that is not worth saying, or None."""
    if request.method != "POST":
        return ""
    if not endpoint_of(request.path).purpose.evaluates:
        return "left out: it only counts tokens"
    if request.dialect is None:
        return "left out: this command does not know its API"
    if request.json is None:
        return f"left out: its body is {request.not_understood}"
    return None


def _target(request: Request) -> str:
    """Return where local servers have its API; captures of gateways have it elsewhere."""
    path, dialect = request.path, request.dialect
    is_chat = endpoint_of(path).purpose is Purpose.CHAT
    if dialect is not None and is_chat and not path.endswith(dialect.path):
        path = dialect.path
    _, mark, query = request.target.partition("?")
    return path + mark + query


def _kept(headers: Headers) -> Iterator[tuple[bytes, bytes]]:
    seen: set[str] = set()
    for name, value in headers:
        lowered = name.decode("latin-1").lower()
        usable = _PLAIN.fullmatch(value.decode("latin-1")) and lowered not in seen
        if lowered not in _NOT_SENT and usable and value != REDACTED.encode():
            seen.add(lowered)
            yield name, value
