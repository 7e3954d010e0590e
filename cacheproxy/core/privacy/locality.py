"""Whether an upstream is the user's own server or a vendor's (law 5)."""

from __future__ import annotations

import ipaddress

# Names that never lead to the public internet: RFC 6761, RFC 6762, RFC 8375, ICANN's .internal,
# and the suffixes that home routers and mesh networks use.
_SUFFIXES = (".localhost", ".local", ".home.arpa", ".internal", ".lan", ".home", ".ts.net")
_SHARED = ipaddress.ip_network("100.64.0.0/10")  # RFC 6598: carriers and mesh networks


def is_local(host: str) -> bool:
    """Whether ``host`` (a name or address, without brackets) is on the user's own network."""
    host = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_SUFFIXES)
    return address.is_private or address.is_link_local or address in _SHARED
