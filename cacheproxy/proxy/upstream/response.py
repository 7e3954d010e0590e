"""The head of a response, as Twisted's IResponse."""

from __future__ import annotations

from typing import Any

from twisted.web.http_headers import Headers as TwistedHeaders

from cacheproxy.core.http1.response_reader import ResponseHead


class ResponseHeadParts:
    """The attributes of IResponse that come from a response's ``head``, once that has come.

    Redirects are left to the client, so that ``previousResponse`` is None.
    """

    head: ResponseHead
    version = (b"HTTP", 1, 1)
    length: Any
    """Number of bytes of the body, or UNKNOWN_LENGTH."""
    request = previousResponse = None

    @property
    def code(self) -> int:
        """The status code."""
        return self.head.status

    @property
    def phrase(self) -> bytes:
        """The reason phrase behind the status code."""
        return self.head.reason

    @property
    def headers(self) -> TwistedHeaders:
        """All headers; ``head`` has their order and spelling, too."""
        found = TwistedHeaders()
        for name, value in self.head.headers:
            found.addRawHeader(name, value)
        return found

    def setPreviousResponse(self, response: object) -> None:
        """Do nothing: redirects are not followed."""
