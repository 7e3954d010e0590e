"""The bell of the terminal that the proxy runs in."""

from __future__ import annotations

import sys
from contextlib import suppress


def ring() -> None:
    """Ring it, if there is a terminal. The log spells control characters out, so not by that."""
    stream = sys.__stdout__  # twistd has put another in place of sys.stdout
    with suppress(OSError, ValueError):
        if stream is not None and stream.isatty():
            stream.write("\a")
            stream.flush()
