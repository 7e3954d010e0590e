"""The head of a response, by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheproxy.core.http1.headers import by_name, tokens
from cacheproxy.core.prompt.request import Headers


@dataclass(slots=True)
class ResponseHead:
    """Status and headers."""

    status: int  #: its code (RFC 9110, section 15)
    reason: bytes  #: the phrase behind it
    headers: Headers  #: (name, value) pairs as they came
    length: int | None = None  #: bytes of the body as announced; None: not known before its end
    _by_name: dict[bytes, list[bytes]] = field(init=False, repr=False, compare=False)
    """Values by name in lower case."""

    def __post_init__(self) -> None:
        self._by_name = by_name(self.headers)

    def values(self, name: bytes) -> list[bytes]:
        """Return all values of the header called ``name`` (lower case)."""
        return self._by_name.get(name, [])

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection says where a body ends."""
        return self.length is None and not self.values(b"transfer-encoding")

    @property
    def content_type(self) -> bytes:
        """The media type with its parameters, in lower case; empty if there is none."""
        return b"".join(self.values(b"content-type")[:1]).lower()

    def tokens(self, name: bytes) -> list[bytes]:
        """Return the comma-separated values of the header called ``name``, in lower case."""
        return tokens(self.values(name))
