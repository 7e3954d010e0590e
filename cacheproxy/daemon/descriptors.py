"""How many file descriptors there may be: a connection takes one, its upstream another."""

from __future__ import annotations

import contextlib

_MOST = 65_536
"""Enough for any number of agents; the kernel's own limit may be a thousand times that, and some
programs started from here close every descriptor up to it."""


def raise_limit() -> None:
    """Raise the soft limit to the hard one, where it is lower: shells start us with 1,024."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _MOST if hard == unlimited else min(hard, _MOST)
    if soft != unlimited and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit that it hides
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
