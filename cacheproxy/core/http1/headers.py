"""Selections of headers: those that pass a proxy (RFC 9110, section 7.6.1), credentials, values."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from itertools import compress
from operator import itemgetter, methodcaller, not_
from typing import Any

from cacheproxy.core.prompt.request import Headers

# "intermediaries ought to remove or replace fields that are known to require removal":
# the list of RFC 9110, section 7.6.1, and the framing, which each hop sets for itself.
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

_USUAL = ([b"close"], [b"keep-alive"])
"""Values of Connection, whose options are no further headers."""
FOR_PAGES = b"access-control-"
"""Prefix of headers that give web pages of other sites permissions: llama-server sends
``Access-Control-Allow-Origin: *``, which would let any page read answers."""
PROBE = b"x-cacheproxy-probe"
"""Header of a test request, as ``cacheproxy doctor`` sends: relayed as others are, not recorded."""

SESSION_ID = re.compile(rb"(?:x-)?(?!x-|parent-|mcp-).+-session-id")
AGENT_ID = re.compile(rb"x-.+-agent-id")
"""Headers in which clients name a session, and a subagent; the owner's name is in between."""

_TRAVELS = re.compile(
    rb"trace|span|request-id|correlation|retry|attempt|timeout|idempoten|\bray\b|\bdate$|baggage"
    rb"|^(?:host|via|content-length|content-encoding|expect|priority|accept.*|x-stainless-.*"
    rb"|x-.*-turn-metadata|x-forwarded-(?:host|port|proto))$"
)
"""Headers of one transmission: a retry of the request has them with other values."""
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})
"""Headers by which a server authenticates a client."""
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
FIELDS = re.compile(rb"(?:%s++:[^\x00-\x08\x0a-\x1f\x7f]*+(?:\r\n|\Z))*+" % TOKEN)
"""Field lines, by RFC 9110, sections 5.1 and 5.5: one match for all, which is quick. No value has a
control character, to which a client or terminal might react."""
_AT_COLON, _STRIPPED = methodcaller("partition", b":"), methodcaller("strip", b" \t")
_NAME: Any = itemgetter(0)
_VALUE: Any = itemgetter(1)


def fields_of(section: bytes) -> Headers | None:
    """Return the headers in ``section``: lines without the end of the last; None if malformed."""
    if FIELDS.fullmatch(section) is None:
        return None
    if not section:
        return ()
    names, _, found = zip(*map(_AT_COLON, section.split(b"\r\n")), strict=True)
    return tuple(zip(names, map(_STRIPPED, found), strict=True))


def credentials_in(headers: Headers, also: frozenset[bytes] = frozenset()) -> Headers:
    """Return those of ``headers`` that are credentials, or named in ``also`` (lower case)."""
    wanted = CREDENTIALS | also
    return tuple([field for field in headers if field[0].lower() in wanted])


def end_to_end(
    headers: Headers, also: frozenset[bytes] = frozenset(), *, but: bytes = b""
) -> Headers:
    """Return ``headers`` without the hop-by-hop ones, those that Connection names, and ``also``.

    ``but``: prefix of further names to leave out.
    """
    gone = _HOP_BY_HOP | also if also else _HOP_BY_HOP
    names = [*map(bytes.lower, map(_NAME, headers))]
    if b"connection" in names:
        said = [*compress(map(_VALUE, headers), map(b"connection".__eq__, names))]
        gone = gone if said in _USUAL else gone.union(tokens(said))
    if but:
        gone = gone.union(filter(methodcaller("startswith", but), names))
    return tuple(compress(headers, map(not_, map(gone.__contains__, names))))


def lasting(headers: Headers, ignores: Collection[str] = ()) -> list[tuple[bytes, bytes]]:
    """Return the end-to-end headers that a client's retry repeats, sorted; names as in ``ignores``.

    Headers of one transmission (trace ids, retry counts …) are left out, and those named in
    ``ignores`` (lower case, ``-`` between the words).
    """
    found = [(name.lower().replace(b"_", b"-"), value) for name, value in end_to_end(headers)]
    ignored = {name.encode("latin-1", "replace") for name in ignores}
    return sorted([one for one in found if not (one[0] in ignored or _TRAVELS.search(one[0]))])


def by_name(headers: Headers) -> Callable[[bytes], list[bytes]]:
    """Return a dictionary's own look-up of a header's values by lower-case name; [] for none."""
    found: defaultdict[bytes, list[bytes]] = defaultdict(list)
    lists = map(found.__getitem__, map(bytes.lower, map(_NAME, headers)))
    deque(map(list.append, lists, map(_VALUE, headers)), 0)
    return found.__getitem__


def tokens(found: list[bytes]) -> list[bytes]:
    """Return the comma-separated parts of a header's values ``found``, in lower case."""
    return list(map(bytes.strip, b",".join(found).lower().split(b","))) if found else []


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Return all values of header ``name`` (lower case)."""
    names = map(bytes.lower, map(_NAME, headers))
    return [*compress(map(_VALUE, headers), map(name.__eq__, names))]
