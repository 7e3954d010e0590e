"""Starting a worker's process, and what it says when it does not run as it should."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

_PROGRAM = (
    "import signal as s;"
    "[s.signal(n, s.SIG_IGN) for n in (s.SIGINT, s.SIGHUP)];"
    "import sys; sys.path[:] = {path!r};"
    "from cacheproxy.crew.worker import main; main({reactor!r})"
)
"""A terminal's Ctrl-C goes to all: the keeper alone is meant. Found on the same path as here."""
_LONGEST = 2000
_LAST_WORDS = 0.5


class WorkerProcess(ProcessProtocol):
    """The process. ``printed`` is called with each line that it prints, ``over`` when it ended.

    ``last`` is the last of these lines: what Python says when it cannot go on.
    """

    def __init__(self, printed: Callable[[str], None], over: Callable[[str], None]) -> None:
        self.pid = 0
        self.last = ""
        self._printed = printed
        self._over = over
        self._rest = b""
        self._is_told = False
        self._reactor: Any = None

    def start(self, reactor: Any, listening: int, line: socket.socket) -> None:
        """Start it; raises OSError. ``line`` is closed: it is the worker's."""
        self._reactor = reactor
        program = _PROGRAM.format(path=sys.path, reactor=_module(reactor))
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            process = reactor.spawnProcess(
                self,
                sys.executable,
                [sys.executable, "-P", "-c", program],
                env=None,
                childFDs={0: nothing, 1: "r", 2: "r", 3: listening, 4: line.fileno()},
            )
        finally:
            os.close(nothing)
            line.close()
        self.pid = process.pid

    def kill(self) -> None:
        """End it at once."""
        if self.transport is not None and getattr(self.transport, "pid", None):
            self.transport.signalProcess("KILL")

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: N802, N803, ARG002
        """Cut what it prints into lines."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self.last = text
                self._printed(text)

    def processExited(self, reason: Failure) -> None:  # noqa: N802 - Twisted's
        """Wait a moment for its last words: a child of its own may hold the pipe for ever."""
        self.pid = 0
        self._reactor.callLater(_LAST_WORDS, self._tell, reason.value)

    def processEnded(self, reason: Failure) -> None:  # noqa: N802 - Twisted's
        """Say how it ended."""
        self._tell(reason.value)

    def _tell(self, end: Any) -> None:
        if self._is_told:
            return
        self._is_told = True
        if end.signal is not None:
            self._over(f"was ended by signal {end.signal}")
        else:
            self._over(f"ended with exit code {end.exitCode}")


def _module(reactor: Any) -> str:
    """Return the module that installs a reactor like ours."""
    name = type(reactor).__module__
    return name if hasattr(sys.modules[name], "install") else "twisted.internet.default"
