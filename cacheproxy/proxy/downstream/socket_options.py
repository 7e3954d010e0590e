"""Kernel options of a client's connection."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.tcp import Connection

_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Two minutes after a client's machine is gone its connection closes, and frees its slot."""


def set_options(transport: Any) -> None:
    """Have small answers sent at once, and a peer noticed that is gone without a word."""
    beneath = getattr(transport, "transport", transport)  # TLS is a transport on a transport
    if not isinstance(beneath, Connection):
        return
    handle = beneath.getHandle()
    if handle.family not in (socket.AF_INET, socket.AF_INET6):
        return
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # macOS calls the first one otherwise
            handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
