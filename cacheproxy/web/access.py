"""Who may read our own pages: programs on this machine, and pages we have served ourselves.

A web page from elsewhere can make a browser ask a server on loopback, and can give that server a
name of its own (DNS rebinding). What it cannot do is leave out the headers that say so.
"""

from __future__ import annotations

import ipaddress

from twisted.web.server import Request


def refusal(request: Request) -> str | None:
    """Return why ``request`` for a page of ours is refused, or None if it is not."""
    host = (request.getHeader(b"host") or b"").decode("latin-1")
    if not _is_address(host):
        return "this page is only served under an address or localhost, not under a name"
    origin = request.getHeader(b"origin")
    if origin is not None and origin.decode("latin-1") != f"http://{host}":
        return "this page is not for other sites"
    # https://www.w3.org/TR/fetch-metadata/: "none" is a user who typed the address.
    if request.getHeader(b"sec-fetch-site") not in (None, b"same-origin", b"none"):
        return "this page is not for other sites"
    return None


def _is_address(host: str) -> bool:
    """Whether a Host header names an IP address or localhost, with or without a port."""
    name, _, port = host.rpartition(":")
    if not port.isdecimal() or host.endswith("]"):
        name = host
    if name in ("localhost", ""):
        return bool(name)
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
