"""Web pages of other origins that may use the proxy: CORS headers for their browsers.

The Fetch standard, section 3.2, "CORS protocol". Nothing here allows credentials, which are cookies
to a browser: a page sets its key as a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cacheproxy.core.prompt.request import Headers

Values = Callable[[bytes], Sequence[bytes]]
"""Returns all values of the header with that (lower-case) name."""

_EXAMPLE = "http://localhost:3000"
_LONGEST = 256
"""Bytes of an origin in a message, at most."""
# RFC 6454, section 6.2: scheme, host, port. Browsers write them in lower case, and in ASCII.
_ORIGIN = re.compile(
    r"([a-z][a-z0-9+.-]*)://((?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?)([/?#].*)?", re.DOTALL
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_VARY = (b"Vary", b"Origin")
"""Header of answers without an origin too: a browser must not reuse those for a page."""
_PREFLIGHT_SECONDS = b"7200"
"""Seconds for which a browser may cache the answer to a preflight: Chromium's maximum."""


class OriginError(ValueError):
    """A text that cannot be allowed as an origin; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The CORS headers of an answer."""

    headers: Headers = ()  #: the headers
    is_preflight: bool = False
    """Whether the request is a CORS preflight (section 3.2.2), and these headers are the answer."""


NOT_SHARED = Sharing()
FOR_OTHERS = Sharing((_VARY,))
"""Headers of answers to requests by no page of another origin."""


def origins(names: Iterable[str]) -> frozenset[bytes]:
    """Return the origins ``names`` in browsers' spelling; raises OriginError."""
    return frozenset(map(_origin, names))


def _origin(text: str) -> bytes:
    text = " ".join(text.split())  # a message has one line
    if text == "*":
        raise OriginError(f"* would let in every web page: name each origin, like {_EXAMPLE}")
    if text == "null":
        raise OriginError(
            "null is the origin of every sandboxed page and local file: serve yours from an "
            f"address, like {_EXAMPLE}"
        )
    found = _ORIGIN.fullmatch(text.lower())
    if found is None:
        if _ORIGIN.fullmatch("http://" + text.lower()):
            raise OriginError(f"{text} has no scheme: write http://{text}")
        raise OriginError(f"{text} is not an origin: write one like {_EXAMPLE}")
    scheme, host, rest = found.groups()
    host = host.removesuffix(_DEFAULT_PORTS.get(scheme, " "))
    if rest:
        raise OriginError(f"{text} is more than an origin: write {scheme}://{host}")
    return f"{scheme}://{host}".encode()


def is_origin(said: bytes) -> bool:
    """Whether ``said``, a header's value, is an origin that a message may repeat."""
    found = _ORIGIN.fullmatch(said.decode("latin-1"))
    return found is not None and not found[3] and len(said) <= _LONGEST


def is_preflight(method: bytes, values: Values) -> bool:
    """Whether the request is a browser's CORS preflight."""
    return method == b"OPTIONS" and bool(values(b"access-control-request-method"))


def for_page(origin: bytes, method: bytes, values: Values) -> Sharing:
    """Return the CORS headers for a page of the allowed ``origin``."""
    headers = [(b"Access-Control-Allow-Origin", origin), _VARY]
    if not is_preflight(method, values):
        return Sharing((*headers, (b"Access-Control-Expose-Headers", b"*")))
    for asked, allowed in (
        (b"access-control-request-method", b"Access-Control-Allow-Methods"),
        (b"access-control-request-headers", b"Access-Control-Allow-Headers"),
        (b"access-control-request-private-network", b"Access-Control-Allow-Private-Network"),
    ):
        headers += [(allowed, b", ".join(values(asked)))] if values(asked) else []
    headers.append((b"Access-Control-Max-Age", _PREFLIGHT_SECONDS))
    return Sharing(tuple(headers), is_preflight=True)
