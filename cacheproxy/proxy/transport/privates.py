"""The private names of Twisted's connections that we use.

``eager`` and ``direct`` save much of a request's cost by using names that start with ``_``. If a
version of Twisted lacks them, bytes are written and connections made in Twisted's own way: slower,
with the same result.
"""

from __future__ import annotations

from twisted.internet import tcp
from twisted.internet.abstract import FileDescriptor

_OF_THE_CLASS = ("dataBuffer", "offset", "_aborting", "_closeSocket", "_shouldShutdown")
_OF_THE_INSTANCE = ("_tempDataBuffer", "_tempDataLen")


def missing() -> list[str]:
    """Return the names that this Twisted does not have."""
    made = FileDescriptor.__init__.__code__.co_names
    return [
        *(name for name in _OF_THE_CLASS if not hasattr(tcp.Connection, name)),
        *(name for name in _OF_THE_INSTANCE if name not in made),
    ]


ARE_THERE = not missing()
"""Whether ``eager`` and ``direct`` can do their work."""
