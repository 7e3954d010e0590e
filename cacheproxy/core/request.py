"""A request as the normalizers see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from cacheproxy.core.dialect import dialect_of
from cacheproxy.core.document import Document, NotUnderstoodError

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Request:
    """One HTTP request, frozen; its JSON is looked at lazily, and once.

    ``target``: the request target as it came (RFC 9112, section 3.2), query included.
    ``headers``: (name, value) pairs; names compare without case.
    ``body``: the whole body, content-decoded by nobody.
    """

    method: str
    target: str
    headers: Headers = ()
    body: bytes = b""

    @cached_property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @cached_property
    def dialect(self) -> str | None:
        """The API spoken, by path: see ``cacheproxy.core.dialect``; None if none we know."""
        return dialect_of(self.path)

    def header(self, name: str) -> str | None:
        """Return the first value of header ``name`` as text (Latin-1), or None."""
        wanted = name.lower().encode("latin-1")
        for key, value in self.headers:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None

    @property
    def document(self) -> Document | None:
        """The body's JSON text with its spans, or None if it is no JSON object."""
        return self._understood[0]

    @property
    def json(self) -> dict[str, Any] | None:
        """What the body says, or None. To be looked at, never altered."""
        return self.document.value if self.document is not None else None

    @property
    def not_understood(self) -> str | None:
        """Why ``json`` is None, in a few words without any of the body's text."""
        return self._understood[1]

    @property
    def _understood(self) -> tuple[Document | None, str | None]:
        # No cached_property: up to Python 3.11 it has one lock for all requests, and the reactor
        # would wait for a thread that reads a large body.
        found = self.__dict__.get("_understood")
        if found is None:
            found = self.__dict__["_understood"] = self._read()
        return cast("tuple[Document | None, str | None]", found)

    def _read(self) -> tuple[Document | None, str | None]:
        try:
            return Document(self.body.decode()), None
        except UnicodeDecodeError:
            return None, "not UTF-8"
        except NotUnderstoodError as error:
            return None, str(error)

    def with_text(self, text: str) -> Request:
        """Return this request with another body."""
        return replace(self, body=text.encode())
