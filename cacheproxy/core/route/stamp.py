"""Headers by which a router before the servers sends a conversation to the same one every time."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.prompt.request import Headers, Request

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
"""Pattern of a header's name: a token (RFC 9110, section 5.1)."""
# fmt: off
_TAKEN = frozenset({
    "accept", "accept-encoding", "api-key", "authorization", "connection", "content-encoding",
    "content-length", "content-type", "cookie", "expect", "host", "keep-alive",
    "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    "x-api-key", "x-parent-session-id",
})
# fmt: on
"""Headers that have another meaning for servers and proxies."""
LENGTH = 32
"""Characters of a key, each of ``[0-9a-f]``: every known router takes such keys."""


class StampError(ValueError):
    """A name that a header with the key cannot have."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The headers that carry a conversation's key. Raises StampError."""

    names: tuple[str, ...] = ()  #: names of the headers

    def __post_init__(self) -> None:
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise StampError(f"{name!r} is not the name of a header, like X-Session-ID")
            if name.lower() in _TAKEN:
                raise StampError(
                    f"{name!r} already has another meaning in HTTP; use another name, like "
                    "X-Session-ID"
                )

    def headers(self, request: Request, session: Session | None) -> Headers:
        """Return the headers to add to ``request``, none that it has, () without a ``session``."""
        unsaid = [name for name in self.names if request.header(name) is None]
        if session is None or not unsaid:
            return ()
        key = root_key(request, session).encode()
        return tuple([(name.encode(), key) for name in unsaid])


def root_key(request: Request, session: Session) -> str:
    """Return the key of the conversation of ``request``: ``LENGTH`` characters.

    ``session``: the request's session, with or without a number among sessions that begin alike.
    All turns of the conversation have the same key, as have its subagents that name it. The key
    depends on the request alone, so that several proxies agree; it is a hash, so that it reveals no
    id or text.
    """
    root = parent_of(request, session) or session
    named = f"{root.client}\0{root.first.id}"
    digest = hashlib.sha256(named.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:LENGTH]
