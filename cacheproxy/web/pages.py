"""Our own pages under /_cacheproxy/: their tree, their guard, and 404 for the rest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from cacheproxy.core.privacy.access import Access
from cacheproxy.observe.recent import Recent
from cacheproxy.proxy.downstream import stock
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.record.exchange import Exchange
from cacheproxy.totals.file import TotalsError

_log = Logger()

Headers = tuple[tuple[bytes, bytes], ...]
Json = dict[str, Any]
_MOST_FIELDS = 20
_NOTHING_ELSE = b"default-src 'none'; frame-ancestors 'none'"
"""Content security policy of answers that are not for display."""
_INTERNAL = "an internal error; see the proxy's log"


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is no JSON object."""

    type: bytes  #: its Content-Type
    body: bytes  #: its whole body
    status: int = 200  #: its status
    headers: Headers = ()  #: headers beside the usual ones


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is written piece by piece, as the client takes it."""

    type: bytes  #: its Content-Type
    pieces: AsyncIterator[bytes]  #: the pieces of its body
    headers: Headers = ()  #: headers beside the usual ones


class PageError(Exception):
    """A request that cannot be met; its message goes to the client, with ``status``."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


Answer = Mapping[str, Any] | Content | Streamed
"""A JSON object, or another answer."""
Page = Callable[[], Awaitable[Answer]]
"""Raises PageError."""
DirectPage = Callable[[Request], bytes | int]
"""Answers the request itself, as Resource.render does; raises PageError."""
Folder = Callable[[Request, str], bytes | int]
"""A DirectPage that also takes the path behind its prefix, still percent-encoded."""
NamedPage = Callable[[Request, str], Awaitable[Answer]]
"""Takes the request and the path behind its prefix, percent-encoded; raises PageError."""
QueriedPage = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""Takes the query's fields, the last of each name; raises PageError."""


UNKNOWN = "this proxy remembers no such exchange; see /_cacheproxy/exchanges"


class OwnPages:
    """All our own pages: a tree of resources under one guard.

    ``before`` is called before each page. ``pages``: by path; those made for twisted.web as well.
    ``folders``: by the prefix of their paths.
    """

    def __init__(
        self,
        pages: Mapping[bytes, DirectPage | IResource],
        folders: Mapping[bytes, Folder],
        before: Callable[[], object],
        clock: IReactorTime,
    ) -> None:
        root = _Branch()
        for path, page in pages.items():
            place = root.at(path)
            if IResource.providedBy(page):
                place.parent.putChild(place.name, page)
            else:
                place.page = page
        for path, folder in folders.items():
            root.at(path.rstrip(b"/")).folder = partial(_inside, folder, path)
        self._site = Site(root, reactor=clock)
        self._before = before
        self._clock = clock

    def __call__(self, down: ProxyRequest) -> int:
        """Answer ``down``, whose access the channel has checked, at once or later."""
        self._before()
        return stock.render(down, self._site, self._clock)


def _inside(folder: Folder, path: bytes, request: Request) -> bytes | int:
    return folder(request, request.path.removeprefix(path).decode("latin-1"))


def _nothing(_: Request) -> bytes | int:
    raise PageError("there is no such page; see /_cacheproxy/health", 404)


class _Branch(Resource):
    """A place in the tree: ``page`` answers here, ``folder`` for all paths below; else 404."""

    page: DirectPage = staticmethod(_nothing)
    folder: DirectPage | None = None

    def __init__(self, parent: _Branch | None = None, name: bytes = b"") -> None:
        super().__init__()
        self.parent = parent or self
        self.name = name

    def at(self, path: bytes) -> _Branch:
        """Return the place of ``path`` below this one; it is made if missing."""
        place = self
        for name in path.split(b"/")[1:]:
            if name not in place.children:
                place.putChild(name, _Branch(place, name))
            place = place.children[name]
        return place

    def getChild(self, path: bytes, request: Request) -> Resource:  # noqa: N802 - Twisted's name
        """Return a resource for a path that is not in the tree: the folder's page, or 404."""
        request.postpath = []
        nowhere = _Branch(self, path)
        nowhere.page = self.folder or _nothing
        return nowhere

    def render(self, request: Request) -> int:
        """Answer the request; a PageError becomes an error answer."""
        try:
            body = self.page(request)
        except PageError as error:
            body = failed(request, error)
        except Exception:
            _log.failure("a page failed")
            body = failed(request, PageError(_INTERNAL, 500))
        if isinstance(body, bytes):
            request.write(body)
            request.finish()
        return NOT_DONE_YET


def values(request: Request, name: bytes) -> list[bytes]:
    """Return all values of the header of that name."""
    return list(request.requestHeaders.getRawHeaders(name, ()))


def break_off(request: Request) -> None:
    """Close the connection at once, so that a partial answer is not taken for a whole one."""
    cast("Any", request.transport).abortConnection()


def queried(page: QueriedPage, request: Request) -> bytes | int:
    """Answer GET and HEAD with ``page``, which takes the query's fields."""
    return answer(request, lambda: page(query_of(request)))


def called(page: NamedPage, request: Request, name: str) -> bytes | int:
    """Answer GET and HEAD with ``page``, which takes the path ``name`` behind its prefix."""
    return answer(request, lambda: page(request, name))


def only(
    request: Request, methods: bytes = b"GET, HEAD", why: str = "this page can only be read"
) -> None:
    """Raise PageError, with the words ``why``, for a method that is not among ``methods``."""
    if request.method not in methods.split(b", "):
        request.setHeader(b"Allow", methods)
        raise PageError(why, 405)


def answer(request: Request, page: Page, *, post: str = "") -> bytes | int:
    """Answer GET and HEAD with ``page``; a client that leaves cancels it.

    ``post``: the reason why the page takes POST alone; "" for a page that takes GET and HEAD.
    Errors of ``page`` become answers: PageError with its status, TotalsError 503, others 500.
    """
    if post:
        only(request, b"POST", post)
    else:
        only(request)
    left: list[Failure] = []

    async def run() -> None:
        try:
            said = await page()
            if isinstance(said, Streamed):
                body = await _write(request, said)
            else:
                body = respond(request, said if isinstance(said, Content) else _json(said))
        except PageError as error:
            body = failed(request, error)
        except TotalsError as error:  # the totals are closed, or far behind
            body = failed(request, PageError(str(error), 503))
        except Exception:
            if not left:
                _log.failure("a page failed")
            body = failed(request, PageError(_INTERNAL, 500))
        if left:
            return
        if request.startedWriting and body:
            break_off(request)
        else:
            request.write(body)
            request.finish()

    def leave(failure: Failure) -> None:
        left.append(failure)
        done.cancel()

    finished = request.notifyFinish()
    done = Deferred.fromCoroutine(run())
    finished.addErrback(leave)
    return NOT_DONE_YET


async def _write(request: Request, stream: Streamed) -> bytes:
    """Write each piece of ``stream``, to HEAD none, once the one before is taken; return b""."""
    flow = _Flow()
    request.registerProducer(flow, True)
    try:
        async for piece in stream.pieces:
            if not request.startedWriting:
                begin(request, stream.type, stream.headers)
            if request.method == b"HEAD":
                break
            request.write(piece)
            if flow.paused is not None:
                await flow.paused
    finally:
        request.unregisterProducer()
    return b""


@implementer(IPushProducer)
class _Flow:
    """A client's flow: ``paused``, set while it does not read, fires when it reads again."""

    paused: Deferred[None] | None = None

    def pauseProducing(self) -> None:
        self.paused = self.paused or Deferred()

    def resumeProducing(self) -> None:
        paused, self.paused = self.paused, None
        if paused is not None:
            paused.callback(None)

    def stopProducing(self) -> None:
        """The client is gone; ``notifyFinish`` tells, too."""


def found(recent: Recent, name: str, unknown: str = UNKNOWN) -> Exchange:
    """Return the exchange ``name``, a number or ``last``; PageError(``unknown``, 404) for none."""
    exchange = recent.find(name)
    if exchange is None:
        raise PageError(unknown, 404)
    return exchange


def query_of(request: Request) -> dict[str, str]:
    """Return the fields of the request's query, the last of each name; raises PageError."""
    query = request.uri.partition(b"?")[2].decode("latin-1")
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise PageError(f"a query may have at most {_MOST_FIELDS} fields") from None


def respond(request: Request, content: Content) -> bytes:
    """Set status and headers for ``content``; return its body."""
    length = (b"Content-Length", b"%d" % len(content.body))
    begin(request, content.type, (length, *content.headers), content.status)
    return content.body


def begin(request: Request, kind: bytes, headers: Headers = (), status: int = 200) -> None:
    """Set status and headers, by default against keeping and framing; ``kind``: Content-Type."""
    request.setResponseCode(status)
    usual = {
        b"Cache-Control": b"no-store",
        b"Content-Security-Policy": _NOTHING_ELSE,
        b"Content-Type": kind,
        b"Referrer-Policy": b"no-referrer",
        b"X-Content-Type-Options": b"nosniff",
    }
    for name, value in {**usual, **dict(headers)}.items():
        request.setHeader(name, value)


def failed(request: Request, error: PageError) -> bytes:
    """Set the status of ``error``; return the body, JSON with its message."""
    return respond(request, _json({"error": str(error)}, error.status))


def _json(value: Mapping[str, Any], status: int = 200) -> Content:
    body = json.dumps(value).encode() + b"\n"  # indenting would take three times as long
    return Content(b"application/json", body, status)


def login(access: Access, request: Request) -> bytes:
    """Set a cookie in a browser that has sent the token (POST /_cacheproxy/login).

    The channel admits only requests with the token or the cookie. The cookie is derived from the
    token; scripts cannot read it, other sites cannot cause it to be sent (RFC 6265bis: HttpOnly,
    SameSite), and it opens our own pages alone.
    """
    only(request, b"POST", "send the token by POST")
    if not access.token:
        raise PageError("this proxy asks for no token", 404)
    name, value = access.cookie
    secure = b"; Secure" if request.isSecure() else b""
    cookie = b"%s=%s; Path=/_cacheproxy; HttpOnly; SameSite=Strict%s" % (name, value, secure)
    headers = ((b"Set-Cookie", cookie),)
    return respond(request, Content(b"application/json", b"{}\n", headers=headers))
