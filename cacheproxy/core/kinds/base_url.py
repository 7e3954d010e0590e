"""A server's URL, as people write and copy it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_BARE = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+(?:/.*)?")
"""A host and its port, without a scheme."""


def server_root(text: str) -> str:
    """Return the URL of a server's root: ``http://`` before ``host:port``, no ``/v1`` at the end.

    Clients take the base URL of the OpenAI API, which ends in ``/v1``, and append to it; other
    pages lie beside it. A text that is no URL is returned as it is.
    """
    url = f"http://{text}" if _BARE.fullmatch(text) else text
    return url.rstrip("/").removesuffix("/v1").rstrip("/") if "://" in url else url


def host_of(text: str) -> str:
    """Return the host of a server's URL, "" if no host can be read from it."""
    try:
        return urlsplit(server_root(text)).hostname or ""
    except ValueError:
        return ""


def origin_of(text: str) -> str:
    """Return the URL of a server's root in one spelling of host and port, for comparison.

    The names of this machine become ``localhost``; a text that cannot be read is returned as is.
    """
    root = server_root(text)
    try:
        parts = urlsplit(root)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return root
    host = "localhost" if parts.hostname in ("127.0.0.1", "::1") else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path}"
