"""The limits and other settings of a client's connection."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twisted.internet.tcp import Server

from cacheproxy.core.conversation.owner import peer_address
from cacheproxy.core.http1.request_head import RequestHead, RequestLimits
from cacheproxy.core.privacy.access import HEALTH, Access, AccessRefusal, Door
from cacheproxy.core.privacy.origins import NOT_SHARED, Sharing
from cacheproxy.proxy.downstream.bodies import Bodies

_KEEPALIVE = [
    (getattr(socket, name), value)
    for name, value in {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}.items()
    if hasattr(socket, name)  # macOS calls the first one otherwise
]
"""TCP keep-alive: a connection closes, and frees its slot, two minutes after its peer vanished."""
_SPARE = 16
"""Connections beyond the limit that may get the health page at a time; each closes after it."""


@dataclass(frozen=True)
class Limits(RequestLimits):
    """Limits on what a client may send, and on its time."""

    connections: int = 4096  #: number of connections at a time
    in_flight: int = 512 << 20  #: bytes of large bodies at a time
    idle: float = 75.0  #: seconds between requests, and between two pieces of a body
    head_seconds: float = 30.0
    """Seconds from a request's first byte to the end of its head; bytes in between do not extend
    it."""


class SiteState:
    """The settings in force and the open connections, as the channels need them from their site.

    ``closing``: each connection closes after its answer; ``draining``: new requests are refused.
    ``spare``: connections beyond the limit that get the health page. ``bodies``: the large bodies
    in flight.
    """

    reactor: Any
    resource: Any

    def __init__(self, limits: Limits, access: Access) -> None:
        self.limits = limits
        self.access = access
        self.channels: set[Any] = set()
        self.spare: set[Any] = set()
        self.bodies = Bodies(limits.in_flight)
        self.closing = self.draining = False

    def refusal(self, head: RequestHead, door: Door, channel: Any) -> AccessRefusal | None:
        """Return the refusal of a request of ``channel`` for its ``head``, None if it is allowed.

        ``door``: the address and port at which the connection came in.
        """
        if self.draining:
            return AccessRefusal(503, "the proxy is shutting down")
        if len(self.channels) > self.limits.connections:
            if head.path != HEALTH or head.length != 0 or len(self.spare) >= _SPARE:
                most = f"the limit is {self.limits.connections} (--max-connections)"
                return AccessRefusal(503, f"too many connections: {most}")
            self.spare.add(channel)
            head.persistent = False
        if head.scheme:
            misdirected = self.access.misdirected(head.values, head.scheme, door)
            if misdirected is not None:
                return misdirected
        http10 = head.version == b"HTTP/1.0"
        return self.access.refusal(
            head.values, door.address, method=head.method, path=head.path, http10=http10
        )

    def sharing(self, head: RequestHead | None) -> Sharing:
        """Return the answer's headers about web pages of other origins (CORS)."""
        if head is None or not self.access.origins:
            return NOT_SHARED
        return self.access.sharing(head.method, head.path, head.values)

    def without_token(self, head: RequestHead) -> RequestHead:
        """Return ``head`` without the proxy's token, if it has one."""
        access = self.access
        held, target = access.token_headers(head.values), access.without_token(head.target)
        return head.without(held, target) if held or target != head.target else head


def set_options(listening: socket.socket) -> None:
    """Set the options of ``listening``, which the connections inherit that it accepts.

    Small answers are sent at once, and a peer that has vanished is noticed.
    """
    with suppress(OSError):  # a Unix socket has none of these
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            listening.setsockopt(socket.IPPROTO_TCP, option, value)


def addresses(transport: Any, *, secure: bool) -> tuple[Door, str]:
    """Return a connection's local address, and its peer's."""
    beneath = getattr(transport, "transport", transport)  # TLS is a transport on a transport
    if isinstance(beneath, Server):
        try:
            name = beneath.socket.getsockname()
        except OSError:  # the client has left already
            name = ""
        if isinstance(name, tuple) and len(name) == 2:  # IPv4; by Twisted it takes five calls
            peer: Any = beneath.client
            return Door(*name, secure), peer_address(peer[0])
    host = transport.getHost()
    door = Door(getattr(host, "host", ""), getattr(host, "port", 0), secure)
    return door, peer_address(getattr(transport.getPeer(), "host", None) or "")
