"""What of Twisted's connections we use that it does not promise.

Both names say whether something waits to be written. If a version of Twisted lacks them, ``eager``
and ``direct`` leave writing and connecting to Twisted: slower, with the same result.
"""

from __future__ import annotations

from twisted.internet import tcp
from twisted.internet.abstract import FileDescriptor

_OF_THE_CLASS, _OF_THE_INSTANCE = "dataBuffer", "_tempDataBuffer"


def missing() -> list[str]:
    """Return the names that this Twisted does not have."""
    is_there = {
        _OF_THE_CLASS: hasattr(tcp.Connection, _OF_THE_CLASS),
        _OF_THE_INSTANCE: _OF_THE_INSTANCE in FileDescriptor.__init__.__code__.co_names,
    }
    return [name for name, there in is_there.items() if not there]


ARE_THERE = not missing()
"""Whether ``eager`` and ``direct`` can do their work."""
