"""The key by which a conversation stays at one server, whoever chooses that server."""

from __future__ import annotations

import hashlib

from cacheproxy.core.conversation.session import Session, parent_of
from cacheproxy.core.prompt.request import Request

LENGTH = 32
"""Characters of a key, each of ``[0-9a-f]``: what every router takes that we know."""


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
