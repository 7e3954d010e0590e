"""What the proxy asks of a translation, whichever way it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cacheproxy.core.prompt.request import Request


class TranslationError(ValueError):
    """Something that cannot be said in the other dialect.

    ``place``: the JSON pointer of what is wrong in the body it was read from, "" for all of it.
    The message names the place and never quotes what a user, a tool or a model wrote.
    """

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response for the client: its status and its body, a JSON text."""

    status: int
    body: bytes


class Stream(Protocol):
    """The upstream's event stream turned into the client's, bytes to bytes, as it comes."""

    def feed(self, data: bytes) -> bytes:
        """Return what ``data`` (any piece of the upstream's stream) lets the client have now.

        Raises TranslationError where the upstream's events make no sense.
        """

    def close(self) -> bytes:
        """Return the rest, once the upstream's body has ended cleanly.

        Raises TranslationError if its events had not come to their end: the proxy then breaks the
        client's answer off, so that a part is never taken for the whole.
        """


class Translation(Protocol):
    """One exchange: ``request`` is called first, then ``answer`` or ``stream``, once."""

    def request(self, request: Request) -> Request:
        """Return ``request`` as the upstream wants it: path, headers and body.

        Raises TranslationError: the client gets 400 with its text.
        """

    def answer(self, status: int, body: bytes) -> Answer:
        """Return an unstreamed response, or an error response, as the client wants it.

        Raises TranslationError where the upstream's body makes no sense: the client gets 502.
        """

    def stream(self) -> Stream:
        """Return the transform of a streamed 200 response."""
