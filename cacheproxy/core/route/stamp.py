"""The headers by which a router between us and the servers keeps a conversation at one of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.prompt.request import Headers, Request

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
"""RFC 9110, section 5.1: a token."""
# fmt: off
_TAKEN = frozenset({
    "accept", "accept-encoding", "api-key", "authorization", "connection", "content-encoding",
    "content-length", "content-type", "cookie", "expect", "host", "keep-alive",
    "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    "x-api-key", "x-parent-session-id",
})
# fmt: on
"""What says something else to servers, and to other proxies."""
LENGTH = 32
"""Characters of a key, each of ``[0-9a-f]``: what every router takes that we know."""


class StampError(ValueError):
    """A name that no such header can have."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Puts a conversation's key into headers. Raises StampError."""

    names: tuple[str, ...] = ()  #: of the headers that carry the key

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
        """Return the headers to send with ``request`` besides its own; ``session``: whose it is.

        What the client itself sends under such a name stays. Without a session there is no key.
        """
        unsaid = [name for name in self.names if request.header(name) is None]
        if session is None or not unsaid:
            return ()
        key = root_key(request, session).encode()
        return tuple([(name.encode(), key) for name in unsaid])


def root_key(request: Request, session: Session) -> str:
    """Return the key of the conversation that ``request`` is for: ``LENGTH`` characters.

    ``session``: whose it is, told apart from those that begin alike or not. All turns have the same
    key, and so have those of its subagents, as far as they name it. It is told from the request
    alone, so that several proxies agree; it is a hash, so that nobody reads an id or a text in it.
    """
    root = parent_of(request, session) or session
    named = f"{root.client}\0{root.first.id}"
    digest = hashlib.sha256(named.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:LENGTH]
