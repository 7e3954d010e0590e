"""twistd for a parent process: ``python -m cacheproxy.child.twistd TWISTD-ARGUMENTS``.

The same as the ``twistd`` command, except that it leaves when its standard input ends, and so
dies with its parent, whatever the parent dies of.
"""

from __future__ import annotations

import os
import signal
import threading

from twisted.scripts.twistd import run


def leave_with_parent() -> None:
    """Wait for the end of standard input, then ask this process to stop."""
    # os.read, since a thread inside sys.stdin would hold its lock when the interpreter ends
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=leave_with_parent, daemon=True).start()
    run()
