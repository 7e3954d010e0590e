"""Names with ``*`` and ``?`` in them, as people write them in a config file."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache


@lru_cache(maxsize=1024)
def fits(name: str, pattern: str) -> bool:
    """Whether ``name`` is what ``pattern`` describes; the same few are asked for all the time."""
    return pattern == "*" or fnmatchcase(name, pattern)
