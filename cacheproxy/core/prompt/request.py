"""A request as the normalizers see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.document.compare import Overlap
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.lazy import Once
from cacheproxy.core.document.literals import Literals
from cacheproxy.core.document.reader import NotUnderstoodError
from cacheproxy.core.document.rereading import Splice
from cacheproxy.core.prompt.dialect import dialect_of
from cacheproxy.core.prompt.opening import opening_of

_LOOKED_AT = 8
"""Bytes that were there before and take as long as one that is new, at most."""
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

    @Once
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @Once
    def dialect(self) -> str | None:
        """The API spoken, by path: see ``cacheproxy.core.prompt.dialect``; None if none we know."""
        return dialect_of(self.path)

    def header(self, name: str) -> str | None:
        """Return the first value of header ``name`` as text (Latin-1), or None."""
        value = self._by_name.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def first_header(self, names: Iterable[bytes]) -> str | None:
        """Return what the first of ``names`` (lower case) says that says anything, or None."""
        by_name = self._by_name
        for name in names:
            if by_name.get(name):
                return by_name[name].decode("latin-1")
        return None

    @Once
    def document(self) -> Document | None:
        """The body's JSON text with its spans, or None if it is no JSON object."""
        literals, shared = self.literals, self.__dict__.pop("_shared", None)
        splices = self.__dict__.pop("_splices", ())
        try:
            return Document(self.body, shared, literals, splices)
        except NotUnderstoodError as error:
            self.__dict__["_why"] = str(error)
            return None

    @Once
    def json(self) -> dict[str, Any] | None:
        """What the body says, or None. To be looked at, never altered."""
        document = self.document
        return document.value if document is not None else None

    @property
    def not_understood(self) -> str | None:
        """Why ``json`` is None, in a few words without any of the body's text."""
        return self.__dict__["_why"] if self.document is None else None

    @Once
    def opening(self) -> list[list[str]]:
        """The system text that the prompt opens with: see ``cacheproxy.core.prompt.opening``."""
        return opening_of(self.json or {})

    @Once
    def clients(self) -> dict[Any, bool]:
        """Whose request it is and whose not, as far as it was asked (core.prompt.client)."""
        return {}

    @property
    def is_read(self) -> bool:
        """Whether the JSON has been looked at."""
        return "document" in self.__dict__

    @property
    def effort(self) -> int:
        """How many bytes could be scanned in the time that it takes to look at this body.

        Only what is in no earlier one has to be scanned; to look at the rest takes an eighth.
        """
        shared = self.__dict__.get("_shared")
        new = len(self.body)
        if shared is not None:
            new -= shared.prefix + shared.suffix
        elif self.is_read:
            new = self.document.scanned if self.document is not None else 0
        return max(new, len(self.body) // _LOOKED_AT)

    @Once
    def literals(self) -> Literals:
        """The plain ASCII texts in the body: ``"text" in request.literals``, each found once."""
        shared = self.__dict__.get("_shared")
        if shared is None:
            return Literals(self.body)
        return Literals(self.body, shared.earlier.literals, shared.prefix, shared.suffix)

    def with_body(
        self, body: bytes, shared: Overlap | None = None, splices: tuple[Splice, ...] = ()
    ) -> Request:
        """Return this request with another body; ``shared``, ``splices``: what is known of it."""
        other = Request(self.method, self.target, self.headers, body)
        known, ours = other.__dict__, self.__dict__
        for name in ("path", "dialect", "clients", "_by_name"):
            if name in ours:
                known[name] = ours[name]
        other.after(shared)
        if splices:
            known["_splices"] = splices
        return other

    def with_text(self, text: str) -> Request:
        """Return this request with another body."""
        return self.with_body(text.encode())

    def after(self, shared: Overlap | None) -> Request:
        """Return this request, yet unread, to be read with an earlier one at hand."""
        if shared is not None:
            self.__dict__["_shared"] = shared
            self.__dict__.pop("_splices", None)  # which are of another
        return self

    @Once
    def _by_name(self) -> dict[bytes, bytes]:
        return {name.lower(): value for name, value in reversed(self.headers)}
