"""The leaf Resource that renders every request."""

from __future__ import annotations

from collections.abc import Callable

from twisted.web.resource import Resource

from cacheproxy.core.http1.headers import tokens
from cacheproxy.core.privacy.access import is_own
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.attempt import ExchangeContext
from cacheproxy.proxy.exchange.exchange import begin


class ProxyResource(Resource):
    """The relay of every request, with any method and path, except those for the proxy's pages.

    ``own``: renders these.
    """

    isLeaf = True

    def __init__(self, context: ExchangeContext, own: Callable[[ProxyRequest], int]) -> None:
        super().__init__()
        self._context = context
        self._own = own
        self._via_token = context.via.lower()

    def render(self, request: ProxyRequest) -> int:
        """Begin the exchange, or refuse a request that cannot be relayed."""
        path = request.path
        if is_own(path):
            return self._own(request)
        if request.sharing.is_preflight:
            return request.answer(204, b"")
        if not path.startswith(b"/") and (request.uri, request.method) != (b"*", b"OPTIONS"):
            return request.refuse(400, "only request targets that start with '/' are relayed")
        if request.method == b"TRACE":  # the response would echo credentials
            return request.refuse(501, "TRACE is not relayed")
        # RFC 6455, section 4.1: no relayed answer could be a valid handshake.
        upgrades = request.values(b"upgrade")
        is_asked = upgrades and b"upgrade" in tokens(request.values(b"connection"))
        if is_asked and b"websocket" in tokens(upgrades):
            return request.refuse(501, "WebSockets are not relayed: use plain HTTP requests")
        vias = request.values(b"via")
        if vias and self._via_token in b",".join(vias).lower():
            return request.refuse(508, "the upstream leads back to cacheproxy itself: a loop")
        return begin(self._context, request)
