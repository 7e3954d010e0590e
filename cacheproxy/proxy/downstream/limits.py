"""What a client may send, how long it may take, and other settings in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from cacheproxy.core.http1.request_head import RequestHead, RequestLimits
from cacheproxy.core.privacy.access import AccessRefusal, Door
from cacheproxy.core.privacy.origins import Sharing


@dataclass(frozen=True)
class Limits(RequestLimits):
    """How much a client may send, and how long it may take."""

    connections: int = 4096  #: how many at a time
    idle: float = 75.0  #: seconds between requests, and between two pieces of a body
    head_seconds: float = 30.0
    """Seconds from a request's first byte to the end of its head, however many bytes come in
    between."""


class ConnectionSettings(Protocol):
    """What a connection asks its site: what is in force now, and who else is connected."""

    reactor: Any
    resource: Any
    channels: set[Any]
    draining: bool
    closing: bool

    def refusal(self, head: RequestHead, door: Door) -> AccessRefusal | None:
        """Return why a request with ``head`` is refused, None if it is not.

        ``door``: where its connection came in.
        """

    def sharing(self, head: RequestHead | None) -> Sharing:
        """Return what the answer to it says about web pages of other origins.

        ``head``: None for one that is not whole.
        """

    def without_token(self, head: RequestHead) -> RequestHead:
        """Return ``head`` as it goes on: our token is not for the upstream."""
