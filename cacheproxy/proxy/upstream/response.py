"""What an IResponse says of its head."""

from __future__ import annotations

from typing import Any

from twisted.web.http_headers import Headers as TwistedHeaders

from cacheproxy.core.http1.response_reader import ResponseHead


class ResponseHeadParts:
    """The parts of IResponse that stand in a response's ``head``, which is there once it has come.

    Redirects are the client's to follow, so there is no response before this one.
    """

    head: ResponseHead
    version = (b"HTTP", 1, 1)
    length: Any
    """How many bytes the body has, or UNKNOWN_LENGTH."""
    request = previousResponse = None

    @property
    def code(self) -> int:
        """The status."""
        return self.head.status

    @property
    def phrase(self) -> bytes:
        """What stands behind it."""
        return self.head.reason

    @property
    def headers(self) -> TwistedHeaders:
        """All of them; in what order, and how they are spelled, ``head`` knows."""
        found = TwistedHeaders()
        for name, value in self.head.headers:
            found.addRawHeader(name, value)
        return found

    def setPreviousResponse(self, response: object) -> None:
        """Do nothing."""
