"""An HTTP request with its JSON, as rules edit it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import ref

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import dialect_of
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.document.reader import NotUnderstoodError, TooMuchError
from cacheproxy.core.document.words import Literals, Words

_T = TypeVar("_T")
_SHORT = 16 << 10
"""Bytes of a body, at most, that is searched as a whole: to find its new parts takes as long."""
_OF_THE_BODY = frozenset({"document", "json", "literals", "opening", "_why", "_edited"})
"""Attributes that depend on the body: a request with another body does not take them over."""
_OF_ONE_USE = _OF_THE_BODY - {"document", "json", "literals"}
"""Those of them that a request drops even if it stays parsed."""
Headers = tuple[tuple[bytes, bytes], ...]


class Once(Generic[_T]):
    """A property that is computed once, and is from then on as cheap as any attribute.

    Up to Python 3.11 functools.cached_property has one lock for all objects of a class: the
    reactor would wait for a thread that reads a large body. A property that looks into the
    object's dict itself costs a call each time, 0.15 µs, and a request's are read 60 times.
    """

    def __init__(self, work: Callable[[Any], _T]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    def __get__(self, instance: Any, owner: type) -> _T:
        """Compute the value; two threads at once may both do so."""
        if instance is None:
            return self  # type: ignore[return-value]  # access by the class, for its documentation
        value: _T
        value = instance.__dict__[self._name] = self._work(instance)
        return value


@dataclass(frozen=True, init=False)
class Request:
    """One HTTP request, frozen; its JSON is parsed lazily, and once."""

    method: str  #: method as received
    target: str  #: request target as received (RFC 9112, section 3.2), with its query
    headers: Headers = ()  #: (name, value) pairs; names compare without case
    body: bytes = b""  #: whole body; with a Content-Encoding header left, it is not parsed
    memo: Memo | None = field(default=None, compare=False, repr=False)
    """Parsed values of earlier bodies; without it the whole body is parsed, to the same JSON."""
    speaker: str = field(default="", compare=False, repr=False)
    """Name of the known client (``Clients``) that the user agent names; "": none."""

    peer: str = field(default="", compare=False, repr=False)
    """Address of the client's end of the connection; "": this machine, or not known."""

    path: str = field(init=False, compare=False, repr=False)  #: the target without its query
    dialect: Dialect | None = field(init=False, compare=False, repr=False)
    """API of the path; None: no known API."""
    by_name: dict[bytes, bytes] = field(init=False, compare=False, repr=False)
    """First value of each header, by its name in lower case. Never altered."""

    def __init__(  # noqa: PLR0917 (in the order that dataclass would have them)
        self,
        method: str,
        target: str,
        headers: Headers = (),
        body: bytes = b"",
        memo: Memo | None = None,
        speaker: str = "",
        peer: str = "",
    ) -> None:
        known = self.__dict__  # dataclass's own __init__ calls a function for each field
        known["method"], known["target"], known["headers"] = method, target, headers
        known["body"], known["memo"], known["speaker"], known["peer"] = body, memo, speaker, peer
        known["path"] = path = target.partition("?")[0]
        known["dialect"] = dialect_of(path)
        names, values = zip(*reversed(headers), strict=True) if headers else ((), ())
        known["by_name"] = dict(zip(map(bytes.lower, names), values, strict=True))

    def header(self, name: str) -> str | None:
        """Return the first value of header ``name`` as text (Latin-1), or None."""
        value = self.by_name.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def first_header(self, names: Iterable[bytes]) -> str | None:
        """Return the value of the first header of ``names`` (lower case) that has one, or None."""
        for name in names:
            if value := self.by_name.get(name):
                return value.decode("latin-1")
        return None

    @Once
    def document(self) -> Document | None:
        """JSON text of the body with its spans, or None if it is no JSON object."""
        return self._read()

    @Once
    def json(self) -> dict[str, Any] | None:
        """JSON value of the body, or None. To be read, never altered."""
        document = self.document
        return document.value if document is not None else None

    @property
    def not_understood(self) -> str | None:
        """Reason why ``json`` is None, in a few words without any of the body's text."""
        return self.__dict__["_why"] if self.document is None else None

    @Once
    def opening(self) -> list[list[str]]:
        """System text at the beginning of the prompt: see ``Dialect.opening``."""
        return [] if self.dialect is None else self.dialect.opening(self.json or {})

    def spoken_by(self, client: str) -> Request:
        """Return this request, with ``client`` as its ``speaker``."""
        self.__dict__["speaker"] = client
        return self

    @Once
    def clients(self) -> dict[Any, bool]:
        """Whether it is a client's, by ``Client``: a cache of core.prompt.client."""
        return {}

    @Once
    def agreed(self) -> int:
        """Number of leading messages that the request before has as well, as far as compared.

        Values that were put into its other messages are not put back into this request.
        """
        return sys.maxsize

    def agreeing(self, messages: int) -> Request:
        """Return this request, with the number of ``messages`` as ``agreed``."""
        self.__dict__["agreed"] = messages
        return self

    @property
    def is_read(self) -> bool:
        """Whether the JSON has been parsed."""
        return "document" in self.__dict__

    def is_quick(self, most: int) -> bool:
        """Whether parsing the JSON takes no longer than scanning ``most`` bytes.

        Values that the memo does not know are scanned; others take an eighth of the time. A body
        that takes no longer is parsed here.
        """
        size, known = len(self.body), self.__dict__
        if size // 8 > most:  # known bytes, at most, that take as long to read as a new byte
            return False
        if "document" not in known:
            if size <= _SHORT or self.memo is None:
                return size <= most
            try:
                known["document"] = self._read(most)
            except TooMuchError:
                return False
        document = self.document
        return document is None or document.scanned <= most

    def searched_for(self, words: Words, marked_by: dict[Any, bool] | None = None) -> None:
        """Set the texts that ``literals`` searches at once: those of all rules.

        ``marked_by``: entries for ``clients``, which stay whatever is edited later.
        """
        if marked_by is not None:
            self.__dict__["clients"] = {**self.__dict__.get("clients", {}), **marked_by}
        if self.__dict__.get("_words") is not words:
            self.__dict__["_words"] = words
            self.__dict__.pop("literals", None)

    @Once
    def literals(self) -> Literals:
        """Plain ASCII texts in the body: ``"text" in request.literals``, each searched once."""
        memo, words = self.memo, self.__dict__.get("_words")
        if words is None:
            words = Words() if memo is None else memo.words
        if memo is None or self.dialect is None or len(self.body) <= _SHORT or not self.document:
            return Literals(self.body, words)
        return Literals(self.body, words, self.document.short(), self.document.items.values())

    def _read(self, most: int = sys.maxsize) -> Document | None:
        """Return the parsed document; raises TooMuchError if more than ``most`` bytes are new."""
        known = self.__dict__
        if b"content-encoding" in self.by_name:
            known["_why"] = "it has a Content-Encoding that cacheproxy cannot unpack"
            return None
        try:
            document = Document(self.body, self.memo, most, known.get("_edited"))
        except NotUnderstoodError as error:
            known["_why"] = str(error)
            document = None
        known["json"] = None if document is None else document.value
        known.pop("_edited", None)  # the document before the edits is no longer needed
        return document

    def with_body(self, body: bytes, splices: Sequence[Splice] = ()) -> Request:
        """Return this request with another body; ``splices``: the edits that made it, if any."""
        other = object.__new__(Request)
        known = other.__dict__
        known.update(self.__dict__)
        for name in _OF_THE_BODY & known.keys():
            del known[name]
        known["body"] = body
        if splices and self.document is not None:
            known["_edited"] = self.document
        return other

    def bare(self) -> Request:
        """Return this request without cached values; only its parsed body stays for a while.

        The memo decides how long: until the next turn, as a rule.
        """
        other, memo, gone = object.__new__(Request), self.memo, _OF_THE_BODY
        if self.document is not None and memo and memo.keeps_read(ref(other), len(self.body)):
            gone = _OF_ONE_USE
        known = other.__dict__
        known.update(self.__dict__)
        known.pop("agreed", None)
        for name in gone & known.keys():
            del known[name]
        return other

    def forget(self) -> None:
        """Drop the parsed body; it is parsed again if needed."""
        for name in _OF_THE_BODY:
            self.__dict__.pop(name, None)

    def with_text(self, text: str) -> Request:
        """Return this request with the body ``text``."""
        return self.with_body(text.encode())


def messages_of(request: Request | None) -> tuple[str, list[dict[str, Any]]]:
    """Return the name of the messages' member, and the messages; ``{}`` for one that is no object.

    They are the request's own: to be read, never altered.
    """
    name = request.dialect.items if request is not None and request.dialect is not None else ""
    document = None if request is None else request.document
    array = None if document is None else document.array(name)
    if array is None:
        return "", []
    found, notes = array.values, array.notes
    if "objects" not in notes:
        before, count = array.before
        new = found[count:] if before.get("objects") else found
        notes["objects"] = set(map(type, new)) <= {dict}
    if notes["objects"]:  # as nearly always: a long list is not copied
        return name, found
    return name, [one if isinstance(one, dict) else {} for one in found]
