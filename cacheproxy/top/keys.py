"""Single keys of a terminal.

Built on the standard library's termios: prompt_toolkit and textual bring an event loop and a screen
of their own, which is much for five keys.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

if sys.platform != "win32":
    import termios
    import tty

_KEY = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)|.", re.DOTALL)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_NAMES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}
_REST = 0.05
"""Seconds in which a key's further bytes come; an ESC alone for longer is the Escape key."""
_MOST = 4096
_LONGEST = 120
_STEPS = {"j": 1, "down": 1, "k": -1, "up": -1}


def read_keys(data: bytes) -> Iterator[str]:
    """Yield the keys pressed: characters, and names of a few other keys; the rest is left out.

    The sequences are those of ECMA-48, 5.4, and ``ESC O`` of a keypad in application mode.
    """
    for key in _KEY.findall(data.decode("utf-8", "ignore")):
        if key in _NAMES:
            yield _NAMES[key]
        elif key.isprintable():
            yield key


class NoKeys:
    """Stands for ``Keys`` where none can be read: on Windows, or without a terminal as input.

    ``wake`` may be called in any thread.
    """

    def __init__(self) -> None:
        self._woken = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the terminal was not changed."""

    def wait(self) -> list[str]:
        """Wait for ``wake``; return no keys. Steps of a second let Ctrl-C in on Windows."""
        while not self._woken.wait(1.0):
            pass
        self._woken.clear()
        return []

    def wake(self) -> None:
        """End the waiting."""
        self._woken.set()


class Keys:
    """Reads keys from the terminal with the file descriptor ``number``; a context manager.

    Inside the context the terminal shows no typed text and sends each key at once. Ctrl-Z does
    nothing, since the shell would get a terminal without a cursor. At the end, all is restored.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._before = termios.tcgetattr(number)
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        tty.setcbreak(self._number)
        mode = termios.tcgetattr(self._number)
        mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(self._number, termios.TCSANOW, mode)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(termios.error):  # the terminal has been hung up
            termios.tcsetattr(self._number, termios.TCSAFLUSH, self._before)

    def wait(self) -> list[str]:
        """Wait for keys and return them; [] after ``wake`` or a signal."""
        ready, _, _ = select.select([self._number, self._woken], [], [])
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, _MOST)
        return list(read_keys(self._read())) if self._number in ready else []

    def wake(self) -> None:
        """End the waiting."""
        with contextlib.suppress(BlockingIOError):  # a full pipe: the reader is awake already
            os.write(self._waker, b"\0")

    def _read(self) -> bytes:
        """Return the typed bytes, a key's last ones, too; ``q`` if the terminal is gone."""
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self._number, _MOST)
            while _UNFINISHED.search(data) and select.select([self._number], [], [], _REST)[0]:
                more = os.read(self._number, _MOST)
                if not more:
                    break
                data += more
        return data or b"q"


def waiting() -> Keys | NoKeys:
    """Return the reader of keys from standard input, ``NoKeys`` if that is no terminal."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        return NoKeys()
    return Keys(sys.stdin.fileno())


@dataclass(frozen=True, slots=True)
class View:
    """The view that the user has chosen."""

    chosen: str | None = None  #: id of the chosen conversation, None for the first
    is_opened: bool = False  #: whether its turns are shown
    search: str = ""  #: text that the listed conversations have in their names
    is_typing: bool = False  #: whether the user is typing the search

    @property
    def opened(self) -> str | None:
        """Id of the conversation whose turns are shown, None if none is."""
        return self.chosen if self.is_opened else None

    def place(self, names: Sequence[str]) -> int:
        """Return the index of the chosen conversation in ``names``, the listed ids; else 0."""
        return names.index(self.chosen) if self.chosen in names else 0

    def pressed(self, key: str, names: Sequence[str]) -> View | None:
        """Return the view after ``key`` (see ``keys.read_keys``), None if the user leaves."""
        if self.is_typing:
            return self._typed(key)
        if key == "q":
            return None
        if key in _STEPS and names:
            place = min(max(self.place(names) + _STEPS[key], 0), len(names) - 1)
            return replace(self, chosen=names[place])
        if key == "enter" and names:
            return replace(self, chosen=names[self.place(names)], is_opened=not self.is_opened)
        if key == "escape":
            return replace(self, is_opened=False) if self.is_opened else replace(self, search="")
        return replace(self, is_typing=True, is_opened=False) if key == "/" else self

    def _typed(self, key: str) -> View:
        """Return the view after ``key`` while the search is being typed."""
        if key == "enter":
            return replace(self, is_typing=False)
        if key == "escape":
            return replace(self, is_typing=False, search="")
        if key == "backspace":
            return replace(self, search=self.search[:-1])
        is_text = len(key) == 1 and len(self.search) < _LONGEST
        return replace(self, search=self.search + key) if is_text else self
