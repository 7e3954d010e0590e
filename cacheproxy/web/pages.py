"""The pages under /_cacheproxy/: who answers what, and 404 for the rest."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.totals.migrations import TotalsError

_log = Logger()

Headers = tuple[tuple[bytes, bytes], ...]
_MOST_FIELDS = 20
NOTHING_ELSE = b"default-src 'none'; frame-ancestors 'none'"
"""The policy of whatever is no page to be looked at."""


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is no JSON object."""

    type: bytes  #: its Content-Type
    body: bytes  #: the whole of it
    status: int = 200  #: of the answer
    headers: Headers = ()  #: besides the usual ones


class QueryError(ValueError):
    """What stands after the question mark makes no sense; the message goes to the client."""


Answer = Mapping[str, Any] | Content
"""A JSON object, or content of another type."""
Page = Callable[[], Awaitable[Answer]]
DirectPage = Callable[["ProxyRequest"], bytes | int]
"""Answers the request by itself, as Resource.render does."""
Folder = Callable[["ProxyRequest", str], bytes | int]
"""A DirectPage that also takes what follows its prefix."""
QueriedPage = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""Takes the query's fields, the last of each name; raises QueryError."""
_UNKNOWN = "this proxy remembers no such exchange; see /_cacheproxy/exchanges"


class OwnPages:
    """``pages`` answer by their path, ``folders`` by what their path begins with.

    ``before`` is called first each time.
    """

    def __init__(
        self,
        pages: Mapping[bytes, DirectPage],
        folders: Mapping[bytes, Folder],
        before: Callable[[], object],
    ) -> None:
        self._pages = pages
        self._folders = folders
        self._before = before

    def __call__(self, request: ProxyRequest) -> bytes | int:
        """Answer ``request``, which the channel has let in, at once or later."""
        self._before()
        page = self._pages.get(request.path)
        if page is not None:
            return page(request)
        for prefix, folder in self._folders.items():
            if request.path.startswith(prefix):
                return folder(request, request.path[len(prefix) :].decode("latin-1"))
        return failed(request, 404, "there is no such page; see /_cacheproxy/health")


def queried(page: QueriedPage, request: ProxyRequest) -> bytes | int:
    """Answer GET and HEAD with what ``page`` makes of the query."""
    return answer(request, lambda: page(query_of(request)))


def answer(
    request: ProxyRequest, page: Callable[[], Awaitable[Answer | None]], unknown: str = _UNKNOWN
) -> bytes | int:
    """Answer GET and HEAD with what ``page`` returns; ``unknown``: said where that is None."""
    if request.method not in (b"GET", b"HEAD"):
        return not_allowed(request, b"GET, HEAD", "this page can only be read")
    return answer_later(request, page, unknown)


def answer_later(
    request: ProxyRequest, page: Callable[[], Awaitable[Answer | None]], unknown: str = _UNKNOWN
) -> bytes | int:
    """Answer with what ``page`` returns; a client that leaves cancels it."""
    left: list[Failure] = []

    async def run() -> None:
        try:
            body = _said(request, await page(), unknown)
        except QueryError as error:
            body = failed(request, 400, str(error))
        except TotalsError as error:  # they are closed, or far behind
            body = failed(request, 503, str(error))
        except Exception:
            if not left:
                _log.failure("a page failed")
            body = failed(request, 500, "an internal error; see the proxy's log")
        if not left:
            request.write(body)
            request.finish()

    def leave(failure: Failure) -> None:
        left.append(failure)
        done.cancel()

    finished = request.notifyFinish()
    done = Deferred.fromCoroutine(run())
    finished.addErrback(leave)
    return NOT_DONE_YET


def query_of(request: ProxyRequest) -> dict[str, str]:
    """Return the fields of the request's query, the last of each name; raises QueryError."""
    query = request.uri.partition(b"?")[2].decode("latin-1")
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise QueryError(f"a query may have at most {_MOST_FIELDS} fields") from None


def respond(request: ProxyRequest, content: Content) -> bytes:
    """Set status and headers for ``content``; return its body. Nobody may keep it, or frame it."""
    headers: dict[bytes, bytes] = {
        b"Cache-Control": b"no-store",
        b"Content-Security-Policy": NOTHING_ELSE,
        b"Content-Type": content.type,
        b"Content-Length": b"%d" % len(content.body),
        b"Referrer-Policy": b"no-referrer",
        b"X-Content-Type-Options": b"nosniff",
        **dict(content.headers),
    }
    request.setResponseCode(content.status)
    for name, value in headers.items():
        request.setHeader(name, value)
    return content.body


def not_allowed(request: ProxyRequest, methods: bytes, why: str) -> bytes:
    """Answer 405: only ``methods`` are understood."""
    request.setHeader(b"Allow", methods)
    return failed(request, 405, why)


def said(why: str, status: int) -> Content:
    """Return the answer to a request that cannot be met, for a page that returns one."""
    return Content(b"application/json", json.dumps({"error": why}).encode(), status)


def failed(request: ProxyRequest, status: int, why: str) -> bytes:
    """Answer with an error of our own pages."""
    return _json(request, status, {"error": why})


def _said(request: ProxyRequest, said: Answer | None, unknown: str) -> bytes:
    if said is None:
        return failed(request, 404, unknown)
    if isinstance(said, Content):
        return respond(request, said)
    return _json(request, 200, said)


def _json(request: ProxyRequest, status: int, value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value).encode() + b"\n"  # indented, it would take three times as long
    return respond(request, Content(b"application/json", body, status))


def login(access: Access, request: ProxyRequest) -> bytes:
    """Give a browser that has shown the token a cookie for it (POST /_cacheproxy/login).

    The channel lets only those in who know the token, by header or cookie. The cookie is not the
    token, but derived from it; scripts cannot read it, other sites cannot have it sent
    (RFC 6265bis: HttpOnly, SameSite), and it opens our own pages alone.
    """
    if request.method != b"POST":
        return not_allowed(request, b"POST", "send the token by POST")
    if not access.token:
        return failed(request, 404, "this proxy asks for no token")
    name, value = access.cookie
    secure = b"; Secure" if request.secure else b""
    cookie = b"%s=%s; Path=/_cacheproxy; HttpOnly; SameSite=Strict%s" % (name, value, secure)
    headers = ((b"Set-Cookie", cookie),)
    return respond(request, Content(b"application/json", b"{}\n", headers=headers))
