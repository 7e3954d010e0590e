"""The pages under /_cacheproxy/: who answers what, who may ask, and 404 for the rest."""

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
"""The policy of whatever is no page to be looked at."""
_LONGEST_SAID = 1000
"""Bytes that are read of what is said: 10 MB of JSON take a third of a second."""
_NOT_YOU = (
    "Prompts are shown, and rules applied, on this machine or with the token only: open the page "
    "there, or set CACHEPROXY_TOKEN."
)
_INTERNAL = "an internal error; see the proxy's log"
_POST = "this is asked for by POST"


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is no JSON object."""

    type: bytes  #: its Content-Type
    body: bytes  #: the whole of it
    status: int = 200  #: of the answer
    headers: Headers = ()  #: besides the usual ones


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is written piece by piece, as the client takes it."""

    type: bytes  #: its Content-Type
    pieces: AsyncIterator[bytes]  #: of its body
    headers: Headers = ()  #: besides the usual ones


class PageError(Exception):
    """A request that cannot be met; the message goes to the client. ``status``: of the answer."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


Answer = Mapping[str, Any] | Content | Streamed
"""A JSON object, or what is none."""
Page = Callable[[], Awaitable[Answer]]
"""Raises PageError."""
DirectPage = Callable[[Request], bytes | int]
"""Answers the request by itself, as Resource.render does; raises PageError."""
Folder = Callable[[Request, str], bytes | int]
"""A DirectPage that also takes what follows its prefix, as it was spelled."""
NamedPage = Callable[[Request, str], Awaitable[Answer]]
"""Takes the request, and what follows its prefix, as it was spelled; raises PageError."""
QueriedPage = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""Takes the query's fields, the last of each name; raises PageError."""


UNKNOWN = "this proxy remembers no such exchange; see /_cacheproxy/exchanges"


class OwnPages:
    """All of them: a tree of resources under one guard. ``before`` is called first each time.

    ``pages``: by their paths; also such as are made for twisted.web. ``folders``: by what their
    paths begin with.
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
        """Answer ``down``, which the channel has let in, at once or later."""
        self._before()
        return stock.render(down, self._site, self._clock)


def _inside(folder: Folder, path: bytes, request: Request) -> bytes | int:
    return folder(request, request.path.removeprefix(path).decode("latin-1"))


def _nothing(_: Request) -> bytes | int:
    raise PageError("there is no such page; see /_cacheproxy/health", 404)


class _Branch(Resource):
    """A place in the tree: ``page`` answers for itself, ``folder`` for whatever is below.

    Where neither does, there is no such page.
    """

    page: DirectPage = staticmethod(_nothing)
    folder: DirectPage | None = None

    def __init__(self, parent: _Branch | None = None, name: bytes = b"") -> None:
        super().__init__()
        self.parent = parent or self
        self.name = name

    def at(self, path: bytes) -> _Branch:
        """Return the place of ``path`` below it."""
        place = self
        for name in path.split(b"/")[1:]:
            if name not in place.children:
                place.putChild(name, _Branch(place, name))
            place = place.children[name]
        return place

    def getChild(self, path: bytes, request: Request) -> Resource:  # noqa: N802 - Twisted's name
        """Return what answers for a place that is not in the tree."""
        request.postpath = []
        nowhere = _Branch(self, path)
        nowhere.page = self.folder or _nothing
        return nowhere

    def render(self, request: Request) -> int:
        """Answer; also with what is wrong with the question."""
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
    """Close the connection at once, so that a part of an answer is not taken for all."""
    cast("Any", request.transport).abortConnection()


def queried(page: QueriedPage, request: Request) -> bytes | int:
    """Answer GET and HEAD with what ``page`` makes of the query."""
    return answer(request, lambda: page(query_of(request)))


def called(page: NamedPage, request: Request, name: str) -> bytes | int:
    """Answer GET and HEAD with what ``page`` makes of the ``name`` behind its prefix."""
    return answer(request, lambda: page(request, name))


def only(
    request: Request, methods: bytes = b"GET, HEAD", why: str = "this page can only be read"
) -> None:
    """Raise PageError for other ``methods`` than these."""
    if request.method not in methods.split(b", "):
        request.setHeader(b"Allow", methods)
        raise PageError(why, 405)


def answer(request: Request, page: Page, *, post: str = "") -> bytes | int:
    """Answer GET and HEAD with what ``page`` returns; a client that leaves cancels it.

    ``post``: why only POST is answered, "" where it is not.
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
        except TotalsError as error:  # they are closed, or far behind
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
    """Write ``stream``: each piece when the client has taken the one before; return b""."""
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
    """Whether a client keeps up: else ``paused`` fires when it does again."""

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
    """Return the exchange called ``name``; raises PageError(``unknown``)."""
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
    """Set status and headers of an answer of that type. Nobody may keep it, or frame it."""
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
    """Answer with an error of our own pages."""
    return respond(request, _json({"error": str(error)}, error.status))


def _json(value: Mapping[str, Any], status: int = 200) -> Content:
    body = json.dumps(value).encode() + b"\n"  # indented, it would take three times as long
    return Content(b"application/json", body, status)


def login(access: Access, request: Request) -> bytes:
    """Give a browser that has shown the token a cookie for it (POST /_cacheproxy/login).

    The channel lets only those in who know the token, by header or cookie. The cookie is not the
    token, but derived from it; scripts cannot read it, other sites cannot have it sent
    (RFC 6265bis: HttpOnly, SameSite), and it opens our own pages alone.
    """
    only(request, b"POST", "send the token by POST")
    if not access.token:
        raise PageError("this proxy asks for no token", 404)
    name, value = access.cookie
    secure = b"; Secure" if request.isSecure() else b""
    cookie = b"%s=%s; Path=/_cacheproxy; HttpOnly; SameSite=Strict%s" % (name, value, secure)
    headers = ((b"Set-Cookie", cookie),)
    return respond(request, Content(b"application/json", b"{}\n", headers=headers))


class Prompts:
    """What the settings say, until a user says otherwise: that holds until the process ends.

    ``configured`` and ``access`` are set anew when the configuration is.
    """

    def __init__(self) -> None:
        self.configured = False
        self.access = Access()
        self._asked: bool | None = None

    @property
    def on(self) -> bool:
        """Whether they are shown."""
        return self.configured if self._asked is None else self._asked

    def why_not(self, request: Request) -> str | None:
        """Return why who asks may not see them, nor change the settings; None if they may."""
        peer = getattr(request.getClientAddress(), "host", "")
        trusted = self.access.is_trusted(partial(values, request), peer)
        return None if trusted else _NOT_YOU

    def as_json(self, request: Request) -> Json:
        """Return what is so for who asks."""
        why = self.why_not(request)
        return {"on": self.on, "allowed": why is None, "why_not": why}

    def page(self, request: Request) -> bytes | int:
        """Answer POST ``{"show": true}``: show them from now on, or no more."""

        async def show() -> Answer:
            self._asked = wanted
            return {"show": self.on}

        try:
            said = json.loads(cast("Any", request.content).read(_LONGEST_SAID))
        except (ValueError, RecursionError):
            said = None
        wanted = said.get("show") if isinstance(said, dict) else None
        if request.method == b"POST" and not isinstance(wanted, bool):
            raise PageError('say {"show": true}, or false')
        return self.change(request, show)

    def change(self, request: Request, page: Page) -> bytes | int:
        """Answer a POST of JSON by somebody who may change settings with what ``page`` returns.

        No form of another site can be of that type (https://fetch.spec.whatwg.org/, CORS-safelisted
        request headers), and whose Origin is another's does not come this far.
        """
        only(request, b"POST", _POST)
        kinds = values(request, b"content-type")
        if [kind.partition(b";")[0].strip().lower() for kind in kinds] != [b"application/json"]:
            raise PageError("send it with Content-Type: application/json", 415)
        self.check(request)
        return answer(request, page, post=_POST)

    def check(self, request: Request) -> None:
        """Raise PageError for somebody who may neither see prompts nor change settings."""
        why = self.why_not(request)
        if why is not None:
            raise PageError(why, 403)
