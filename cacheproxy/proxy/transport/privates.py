"""What we use of Twisted's connections that Twisted does not promise.

``eager`` and ``direct`` save a good part of what a request costs, by names that start with ``_``.
Where a Twisted has them no more, both step aside: bytes are written, and connections made, in
Twisted's own way, which is slower and does the same.
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
