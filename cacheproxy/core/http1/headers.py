"""Which headers pass a proxy, in both directions (RFC 9110, section 7.6.1)."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from itertools import compress
from operator import itemgetter, methodcaller, not_
from typing import Any

from cacheproxy.core.prompt.request import Headers

# "intermediaries ought to remove or replace fields that are known to require removal":
# the list of RFC 9110, section 7.6.1, and the framing that each side settles for itself.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-authentication-info",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)

FOR_PAGES = b"access-control-"
"""How permissions for web pages of other sites begin: llama-server sends
``Access-Control-Allow-Origin: *``, which would let any page read answers."""
PROBE = b"x-cacheproxy-probe"
"""Marks a test request, as ``cacheproxy doctor`` sends: relayed like any other, never recorded."""

SESSION_ID = re.compile(rb"(?:x-)?(?!x-|parent-|mcp-).+-session-id")
AGENT_ID = re.compile(rb"x-.+-agent-id")
"""In which clients name a session, and a subagent of it; in between is whose header it is."""

_TRAVELS = re.compile(
    rb"trace|span|request-id|correlation|retry|attempt|timeout|idempoten|\bray\b|\bdate$|baggage"
    rb"|^(?:host|via|content-length|content-encoding|expect|priority|accept.*|x-stainless-.*"
    rb"|x-.*-turn-metadata|x-forwarded-(?:host|port|proto))$"
)
"""Headers of one request alone, which its retry has with other values."""
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})
"""By which a server lets somebody in."""
_NAME: Any = itemgetter(0)
_VALUE: Any = itemgetter(1)


def credentials_in(headers: Headers, also: frozenset[bytes] = frozenset()) -> Headers:
    """Return those of ``headers`` that a server lets us in by, and ``also``."""
    wanted = CREDENTIALS | also
    return tuple([field for field in headers if field[0].lower() in wanted])


def end_to_end(
    headers: Headers, also: frozenset[bytes] = frozenset(), *, but: bytes = b""
) -> Headers:
    """Return ``headers`` without the hop-by-hop ones, those that Connection names, and ``also``.

    ``but``: what names that go, too, begin with.
    """
    gone = _HOP_BY_HOP | also if also else _HOP_BY_HOP
    names = [*map(bytes.lower, map(_NAME, headers))]
    if b"connection" in names:
        said = compress(map(_VALUE, headers), map(b"connection".__eq__, names))
        gone = gone.union(tokens([*said]))
    if but:
        gone = gone.union(filter(methodcaller("startswith", but), names))
    return tuple(compress(headers, map(not_, map(gone.__contains__, names))))


def lasting(headers: Headers, ignores: Collection[str] = ()) -> list[tuple[bytes, bytes]]:
    """Return the end-to-end headers that a client's retry has again, in the order of their names.

    Left out are those that say how one request travels, and those that ``ignores`` names (lower
    case, ``-`` between the words).
    """
    found = [(name.lower().replace(b"_", b"-"), value) for name, value in end_to_end(headers)]
    ignored = {name.encode("latin-1", "replace") for name in ignores}
    return sorted([one for one in found if not (one[0] in ignored or _TRAVELS.search(one[0]))])


def by_name(headers: Headers) -> Callable[[bytes], list[bytes]]:
    """Return what returns the values of a header, by its name in lower case: no Python call."""
    found: defaultdict[bytes, list[bytes]] = defaultdict(list)
    lists = map(found.__getitem__, map(bytes.lower, map(_NAME, headers)))
    deque(map(list.append, lists, map(_VALUE, headers)), 0)
    return found.__getitem__


def tokens(found: list[bytes]) -> list[bytes]:
    """Return the comma-separated parts of a header's values, in lower case."""
    return list(map(bytes.strip, b",".join(found).lower().split(b","))) if found else []


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Return all values of header ``name`` (lower case)."""
    names = map(bytes.lower, map(_NAME, headers))
    return [*compress(map(_VALUE, headers), map(name.__eq__, names))]
