"""A program that uses our terminal while it runs, as if the shell itself had started it.

It is in our process group, so signals of keys (Ctrl-C, Ctrl-Z) and of the window's size reach it
without us. Signals sent to us alone are passed on. It stops and continues together with us.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

_POSIX = os.name == "posix"
_KEYS = ("SIGINT", "SIGQUIT")
"""Signals that the terminal sends to its whole foreground process group."""
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


class Foreground:
    """One program in the foreground, and our signal handlers from before its start to its end.

    Until it is started, a signal meant for it ends us, with SystemExit. After its end, signals of
    keys are ignored, since they were meant for it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._has_begun = False
        self.leaves_line = False
        """Whether the cursor may be within a line: a key or a crash has left some text there."""
        self._came: list[int] = []
        self._by_keys = _has_terminal()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        handlers: dict[str, Any] = dict.fromkeys((*_KEYS, *_PASSED_ON), self._pass_on)
        if _POSIX:
            handlers["SIGTSTP"] = _stay  # we stop after the program has
        for name, handler in handlers.items():
            if (number := getattr(signal, name, None)) is not None:
                self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            is_late_key = self._has_begun and signal.Signals(number).name in _KEYS
            signal.signal(number, signal.SIG_IGN if is_late_key else handler)

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Run ``command``; return its exit code, or 128 plus a signal's number. Raises OSError."""
        self._has_begun = True
        with _terminal_as_it_was():
            self._process = process = subprocess.Popen(command, env=env)  # noqa: S603
            for number in self._came:
                self._pass_on(number, None)
            code = _waited(process) if _POSIX else process.wait()
        self.leaves_line |= self._by_keys and code < 0
        return code if code >= 0 else 128 - code

    def _pass_on(self, number: int, _: object) -> None:
        """Send the signal ``number`` to the program, unless the terminal has sent it there, too.

        While the program starts, the signal is stored. Before that, and after the program's end, it
        raises SystemExit, except for a key's signal after the end.
        """
        process, is_key = self._process, signal.Signals(number).name in _KEYS
        if process is None and self._has_begun:
            self._came.append(number)
        elif process is None or (process.returncode is not None and not is_key):
            raise SystemExit(128 + number)
        elif self._by_keys and is_key:
            self.leaves_line = True  # the program has got it from the terminal
        elif process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _waited(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of ``process``; return its exit code, or minus the number of a signal.

    We stop and continue together with it.
    """
    while True:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode
        # In an orphaned process group, which nobody could continue, this does not stop us (POSIX).
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _stay)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _stay(number: int, frame: object) -> None:
    """Do nothing about a signal: unlike SIG_IGN, the program does not inherit this handler."""


def _has_terminal() -> bool:
    """Return whether we are in the foreground of a terminal, whose keys send signals."""
    try:
        return _POSIX and os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp()  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return False


def is_drawn_on() -> bool:
    """Return whether a full-screen program uses our terminal: one that reads single keys."""
    try:
        import termios  # noqa: PLC0415 - not everywhere
    except ImportError:
        return False
    with contextlib.suppress(OSError, termios.error):
        return not termios.tcgetattr(0)[3] & termios.ICANON
    return False


@contextlib.contextmanager
def _terminal_as_it_was() -> Iterator[None]:
    """Take the terminal and its settings back at the end: a program that crashes leaves its own."""
    if not _has_terminal():
        yield
        return
    import termios  # noqa: PLC0415 - not everywhere

    before = termios.tcgetattr(0)
    try:
        yield
    finally:
        handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # we may be in the background
        with contextlib.suppress(OSError, termios.error):
            os.tcsetpgrp(0, os.getpgrp())
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTTOU, handler)
