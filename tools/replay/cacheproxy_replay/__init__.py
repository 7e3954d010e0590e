"""The replay of captured requests to a real server: as captured, and through the rules."""

from __future__ import annotations

from enum import StrEnum


class Cold(StrEnum):
    """The way to start a pass with a cold cache."""

    MARK = "mark"  #: a new mark is put into the pass's prompts
    ERASE = "erase"  #: the server's slots are emptied


class Via(StrEnum):
    """The process that applies the rules in the second pass."""

    PROXY = "proxy"  #: a proxy between this process and the server
    RULES = "rules"  #: this process itself
