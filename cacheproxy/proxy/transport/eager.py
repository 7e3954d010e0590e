"""Writes at once if no earlier bytes wait."""

from __future__ import annotations

from twisted.internet.interfaces import ITransport
from twisted.internet.tcp import Connection

from cacheproxy.proxy.transport import privates


def write(transport: ITransport, data: bytes) -> None:
    """Write ``data``: what the socket takes now, now; the rest as ``transport.write`` does.

    ``transport.write`` alone keeps all of it until the reactor has been told to watch the socket,
    has come round, and has found it writable: 3 % of a request, 20 to 37 % of a chunk.

    TLS, and whatever is no TCP connection of Twisted's, keeps to ``transport.write``. So does a
    connection that has something queued, since bytes go out in order; and one that fails: the
    reactor meets the same error, and closes it in its own time, so that no ``connectionLost``
    comes from within a write. To one that is being aborted nothing may be written: it would arrive.
    """
    if (
        privates.ARE_THERE
        and isinstance(transport, Connection)
        and not transport.TLS
        and not transport._tempDataBuffer  # noqa: SLF001 - there is no other way to know
        and not transport.dataBuffer
        and transport.connected
    ):
        try:
            sent = transport.socket.send(data)
        except OSError:
            sent = 0
        if sent == len(data):
            return
        if sent:
            data = data[sent:]
    transport.write(data)
