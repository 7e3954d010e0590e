"""How an upstream's host is reached."""

from __future__ import annotations

from typing import Any

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IReactorFDSet, IStreamClientEndpoint
from zope.interface import implementer

from cacheproxy.proxy.transport import privates
from cacheproxy.proxy.upstream.direct import DirectEndpoint
from cacheproxy.proxy.upstream.tls import with_tls


def endpoint_of(
    reactor: Any, host: str, port: int, timeout: float, *, secure: bool
) -> IStreamClientEndpoint:
    """Return what connects to ``host`` (a name or an address) within ``timeout`` seconds."""
    can_be_direct = privates.ARE_THERE and IReactorFDSet.providedBy(reactor) and not secure
    connect = DirectEndpoint if can_be_direct else _twisted
    plain: IStreamClientEndpoint
    if host == "localhost":
        four, six = (connect(reactor, each, port, timeout) for each in ("127.0.0.1", "::1"))
        plain = _Localhost(four, six)
    elif isIPAddress(host) or isIPv6Address(host):
        plain = connect(reactor, host, port, timeout)
    else:
        plain = HostnameEndpoint(reactor, host, port, timeout=timeout)
    return with_tls(plain, host) if secure else plain


def _twisted(reactor: Any, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
    """TLS wraps Twisted's own transports; reactors without descriptors have no others."""
    kind = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
    endpoint: IStreamClientEndpoint = kind(reactor, host, port, timeout=timeout)
    return endpoint


@implementer(IStreamClientEndpoint)
class _Localhost:
    """``localhost``: 127.0.0.1, and if nobody listens there, ::1.

    HostnameEndpoint would look the name up in a thread for every connection, and wait 0.3 s
    before it tries the second address.
    """

    def __init__(self, four: IStreamClientEndpoint, six: IStreamClientEndpoint) -> None:
        self._four = four
        self._six = six

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        """Connect to the first that answers; the error is that of 127.0.0.1."""

        def other(failure: Any) -> Deferred[Any]:
            failure.trap(Refused)
            six: Deferred[Any] = self._six.connect(protocolFactory)
            return six.addErrback(lambda _: failure)

        four: Deferred[Any] = self._four.connect(protocolFactory)
        return four.addErrback(other)
