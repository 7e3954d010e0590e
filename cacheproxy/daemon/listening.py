"""The address we listen on, for people and for telling ourselves apart from the upstream."""

from __future__ import annotations

import errno
import os
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import CannotListenError

from cacheproxy.proxy.upstream.upstream import UpstreamURL

_ALL = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def address_url(host: Any) -> str:
    """Return the URL of a listening port's address, or its path in the file system."""
    if isinstance(host, IPv4Address):
        return f"http://{host.host}:{host.port}"
    if isinstance(host, IPv6Address):
        return f"http://[{host.host}]:{host.port}"
    name = getattr(host, "name", None)  # of a socket in the file system
    return os.fsdecode(name) if name else str(host)


def is_loopback(host: IPv4Address | IPv6Address) -> bool:
    """Whether only this machine can reach an address we listen on."""
    return host.host == "::1" or host.host.startswith("127.")


def is_same(host: Any, upstream: UpstreamURL) -> bool:
    """Whether requests for ``upstream`` would come back to the address we listen on."""
    if not isinstance(host, IPv4Address | IPv6Address) or host.port != upstream.port:
        return False
    # Connections to the address that stands for all of them end at this machine, too.
    loopback = upstream.host in ("localhost", "::1", *_ALL) or upstream.host.startswith("127.")
    anywhere = host.host in _ALL
    return upstream.host == host.host or (loopback and (anywhere or is_loopback(host)))


def cannot_listen(error: BaseException | None, where: str) -> str:
    """Return one line that says why we cannot listen at ``where``, and how to mend it."""
    if isinstance(error, CannotListenError):
        reason = getattr(error.socketError, "strerror", None) or str(error.socketError)
        taken = getattr(error.socketError, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
        mend = "choose another with --port" if taken else "check --interface"
        return f"cannot listen on {where}: {reason}: {mend}"
    return f"cannot listen on {where}: {error}"
