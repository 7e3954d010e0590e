"""treq, kept from changing what passes through it.

A proxy relays requests and answers unchanged. treq is made for clients: it adds Accept-Encoding,
decodes gzip, normalises URLs, turns methods into upper case, follows redirects, and shares cookies
between its users. So the request and the answer pass beneath it: what treq gets as the body is a
connection that already has the whole request. treq itself sees a constant method, a URL that it
need not parse, no cookies, and an answer without headers, which is not used.
"""

from __future__ import annotations

from typing import Any, cast

from hyperlink import EncodedURL
from treq.client import HTTPClient
from treq.cookies import IndexableCookieJar
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.web.http_headers import Headers as TwistedHeaders
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import implementer

from cacheproxy.proxy.upstream.connection import UpstreamConnection

_URL = "http://upstream/"


class TamedTreq:
    """Sends through treq what must not change on the way. ``endpoint``: where to."""

    def __init__(self, reactor: Any, endpoint: IStreamClientEndpoint) -> None:
        self._reactor = reactor
        self._cookies = _NoCookies()
        self._url = _PreparedURL.from_text(_URL)
        self._client = HTTPClient(_Beneath(endpoint), self._cookies, cast("Any", lambda data: data))

    def send(self, connection: UpstreamConnection) -> Deferred[UpstreamConnection]:
        """Connect and send; fire with ``connection`` once the response's head has come.

        Errbacks and cancelling: as ``UpstreamConnection.start``.
        """
        sent = self._client.request(
            "POST",
            self._url,
            data=cast("Any", connection),
            cookies=self._cookies,
            allow_redirects=False,
            unbuffered=True,
            reactor=self._reactor,
        )
        return sent.addCallback(lambda _: connection)


@implementer(IAgent)
class _Beneath:
    """What treq sends with: it has the connection send itself, and nothing that treq made."""

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def request(
        self,
        method: bytes,  # noqa: ARG002
        uri: bytes,  # noqa: ARG002
        headers: TwistedHeaders | None = None,  # noqa: ARG002
        bodyProducer: IBodyProducer | None = None,
    ) -> Deferred[IResponse]:
        """Start the connection; fire with an answer that says nothing."""
        assert isinstance(bodyProducer, UpstreamConnection)
        return bodyProducer.start(self._endpoint).addCallback(lambda _: _ANSWER)


class _NoHeaders(TwistedHeaders):
    """No headers, and none can be put there."""

    def setRawHeaders(self, name: Any, values: Any) -> None:
        """Put nothing there."""


@implementer(IResponse)
class _Nothing:
    """The answer that treq sees: nothing to decode, no cookies to keep."""

    version = (b"HTTP", 1, 1)
    code = 200
    phrase = b"OK"
    length = 0
    headers = _NoHeaders()
    request = None
    previousResponse = None

    def deliverBody(self, protocol: object) -> None:
        """Deliver nothing: the connection delivers the body."""

    def setPreviousResponse(self, response: object) -> None:
        """Redirects are not followed, so there is none."""


_ANSWER: Any = _Nothing()


class _PreparedURL(EncodedURL):
    """A URL that treq neither parses nor spells again."""

    def to_uri(self) -> _PreparedURL:
        """Return itself: it is one."""
        return self

    def to_text(self, with_password: bool = False) -> str:  # noqa: ARG002
        """Return the one text it has."""
        return _URL


class _NoCookies(IndexableCookieJar):
    """A cookie jar that neither adds nor keeps: cookies are the client's own headers here."""

    def add_cookie_header(self, request: Any) -> None:
        """Add nothing."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Keep nothing."""
