"""What a client may send, how long it may take, and other settings in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from cacheproxy.core.http1.request_reader import RequestHead
from cacheproxy.core.privacy.access import Access, Refusal


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes: ``body``, ``head`` (all headers), ``target``. Counts: ``headers``, ``connections``.

    Seconds: ``idle`` between requests and between two pieces of a body, ``head_seconds`` from a
    request's first byte to the end of its head, however many bytes come in between.
    """

    body: int = 64 << 20
    head: int = 64 << 10
    target: int = 32 << 10
    headers: int = 1000
    connections: int = 4096
    idle: float = 75.0
    head_seconds: float = 30.0


class Settings(Protocol):
    """What a connection asks its site: what is in force now, and who else is connected."""

    reactor: Any
    resource: Any
    access: Access
    channels: set[Any]
    draining: bool

    def refusal(self, head: RequestHead, address: str) -> Refusal | None:
        """Return why a request with ``head`` is refused, None if it is not.

        ``address``: ours, at which its connection came in.
        """
