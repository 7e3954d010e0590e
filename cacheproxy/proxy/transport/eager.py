"""Writes, and closes, at once if no earlier bytes wait.

Twisted does not promise the names by which its connections say whether something waits. If a
version lacks them, writing and connecting (``endpoints``) is left to Twisted: slower, with the same
result.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import ITransport
from twisted.internet.main import CONNECTION_DONE
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure

_CLOSED = Failure(CONNECTION_DONE)
_OF_THE_CLASS, _OF_THE_INSTANCE = ("dataBuffer", "offset"), "_tempDataBuffer"


def missing() -> list[str]:
    """Return the names that this Twisted does not have."""
    is_there = {
        **{name: hasattr(Connection, name) for name in _OF_THE_CLASS},
        _OF_THE_INSTANCE: _OF_THE_INSTANCE in FileDescriptor.__init__.__code__.co_names,
    }
    return [name for name, there in is_there.items() if not there]


PRIVATES_ARE_THERE = not missing()


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
        PRIVATES_ARE_THERE
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
        if sent and transport.producer is None:  # 20 MB are not copied for what has gone of them
            transport.dataBuffer, transport.offset = data, sent
            transport.startWriting()
            return
        if sent:
            data = data[sent:]
    transport.write(data)


def close(transport: Any) -> None:
    """Close ``transport``, which has no producer: now, if nothing waits to be written.

    ``transport.loseConnection`` alone waits until the reactor has come round.
    """
    if (
        PRIVATES_ARE_THERE
        and isinstance(transport, Connection)
        and not transport.TLS
        and not transport._tempDataBuffer  # noqa: SLF001 - as above
        and not transport.dataBuffer
        and transport.connected
        and not transport.disconnecting
    ):
        transport.connectionLost(_CLOSED)
    else:
        transport.loseConnection()
