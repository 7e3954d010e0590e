"""Captured requests, sent to a real server again: as captured, and through the rules."""

from __future__ import annotations

from enum import StrEnum


class Cold(StrEnum):
    """How a pass starts with a cold cache."""

    MARK = "mark"  #: its own mark in its prompts
    ERASE = "erase"  #: the server's slots emptied


class Via(StrEnum):
    """What applies the rules in the second pass."""

    PROXY = "proxy"  #: a proxy in between
    RULES = "rules"  #: this process
