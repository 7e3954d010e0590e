"""Signals: SIGTERM and SIGINT ask the proxy to stop, SIGHUP to read its config file again.

Twisted's own handlers stop the reactor and then let twistd die of the signal, so that a clean end
looks like a crash.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def take(reactor: Any, stop: Callable[[], object], reload: Callable[[], object]) -> None:
    """Have ``stop`` and ``reload`` called on the reactor's thread, once for each signal.

    Call it when the reactor runs. Where Twisted has not installed its own handlers we install none
    either: a debugger has taken SIGINT, or a shell lets background jobs ignore it.
    """
    has_ended = False

    def request_stop(*_: object) -> None:
        reactor.callFromThread(stop)

    def hung_up(*_: object) -> None:
        """Tell the two meanings apart: a SIGHUP also says that the terminal was closed.

        Then it comes twice, from the kernel and from the shell, and the second is no hurry.
        """
        nonlocal has_ended
        if not ends_with_terminal or _has_terminal():
            reactor.callFromThread(reload)
        elif not has_ended:
            has_ended = True
            reactor.callFromThread(stop)

    for number, handler in ((signal.SIGTERM, reactor.sigTerm), (signal.SIGINT, reactor.sigInt)):
        if signal.getsignal(number) == handler:
            signal.signal(number, request_stop)
    if hasattr(signal, "SIGHUP"):
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
        ends_with_terminal = not ignored and _has_terminal()
        signal.signal(signal.SIGHUP, hung_up)


def hold() -> None:
    """Ignore SIGHUP while the process starts: it is about to read the settings anyway.

    Without a handler the signal would end the process.
    """
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: None)


def exit_with(code: int) -> None:
    """Let the process end with exit ``code`` once twistd is done; twistd's own is always 0.

    twistd catches SystemExit from everything it runs, and removes its pid file after that.
    """
    atexit.register(_leave, code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
