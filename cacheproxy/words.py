"""Numbers and foreign texts, formatted for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

UNKNOWN = "?"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text after them."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def count(number: int | None) -> str:
    """Return a number of tokens: ``1,234``; ``UNKNOWN`` for None."""
    return UNKNOWN if number is None else f"{number:,}"


def share(part: float | None) -> str:
    """Return a part of a whole, 0 to 1, in per cent: ``12.3%``; ``UNKNOWN`` for None."""
    return UNKNOWN if part is None else f"{part:.1%}"


def seconds(number: float | None) -> str:
    """Return a time, in seconds: ``1.23 s``, ``2 min 05 s``; ``UNKNOWN`` for None."""
    if number is None:
        return UNKNOWN
    if number < 9.995:
        return f"{number:.2f} s"
    if number < 59.95:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes} min {rest:02d} s"


def short(number: float) -> str:
    """Return ``number`` with three figures or four, and a letter: 187.2K, 8.41M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            value = number / size
            return f"{value:.{2 if value < 10 else 1 if value < 1000 else 0}f}{letter}"
    return f"{number:.0f}"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: ``1 request``, ``2 requests``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def capitalised(text: str) -> str:
    """Return ``text`` with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def span(number: float | None) -> str:
    """Return a time, given in seconds, in its largest unit: ``3 h``; ``UNKNOWN`` for None."""
    if number is None:
        return UNKNOWN
    for size, unit in _UNITS:
        if number >= size:
            return f"{number // size:.0f} {unit}"
    return f"{number:.0f} s" if number >= 10 else f"{number:.1f} s"


def ago(number: float) -> str:
    """Return the words for an age in seconds: ``just now``, ``12 s ago``, ``3 min ago``."""
    if number >= _UNITS[-1][0]:
        return f"{span(number)} ago"
    return "just now" if number < 5 else f"{number:.0f} s ago"


def clients(came: Iterable[tuple[str, str, float]], now: float) -> str:
    """Return the clients with the number, and the last time, of their requests; "" for none.

    ``came``: client, session and time of each request; times in seconds.
    """
    known: dict[str, list[tuple[str, float]]] = {}
    for client, session, at in came:
        known.setdefault(client, []).append((session, at))
    return ", ".join(
        f"{client} ({counted(len(each), 'request')} in "
        f"{counted(len({session for session, _ in each}), 'session')}, "
        f"the last {ago(now - max(at for _, at in each))})"
        for client, each in known.items()
    )


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``. Did you mean NAME?``, with the name in ``known`` like ``name``; "" if none is."""
    near = get_close_matches(name, list(known), 1, 0.66)
    return f". Did you mean {near[0]}?" if near else ""


def visible(line: str) -> str:
    """Return ``line`` made safe for a terminal: a dot for each control character.

    Lone surrogates, which JSON can spell and no terminal can print, become question marks.
    """
    return _CONTROL.sub("·", line).encode("utf-8", "replace").decode()
