"""Numbers, and other people's texts, as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

UNKNOWN = "?"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of what follows."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def count(number: int | None) -> str:
    """Return a number of tokens, or that it is not known."""
    return UNKNOWN if number is None else f"{number:,}"


def share(part: float | None) -> str:
    """Return a part of a whole, 0 to 1, in per cent."""
    return UNKNOWN if part is None else f"{part:.1%}"


def seconds(number: float | None) -> str:
    """Return a time in the unit it is spoken of."""
    if number is None:
        return UNKNOWN
    if number < 9.995:
        return f"{number:.2f} s"
    if number < 59.95:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes} min {rest:02d} s"


def short(number: float) -> str:
    """Return ``number`` with three figures: 187.2K, 8.41M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            value = number / size
            return f"{value:.{2 if value < 10 else 1 if value < 1000 else 0}f}{letter}"
    return f"{number:.0f}"


def counted(number: int, noun: str) -> str:
    """Return ``1 request``, ``2 requests``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def capitalised(text: str) -> str:
    """Return ``text`` as a sentence begins."""
    return text[:1].upper() + text[1:]


def span(number: float | None) -> str:
    """Return a time, in seconds, in its largest unit alone."""
    if number is None:
        return UNKNOWN
    for size, unit in _UNITS:
        if number >= size:
            return f"{number // size:.0f} {unit}"
    return f"{number:.0f} s" if number >= 10 else f"{number:.1f} s"


def ago(number: float) -> str:
    """Return how long ago something was, of a time in seconds."""
    if number >= _UNITS[-1][0]:
        return f"{span(number)} ago"
    return "just now" if number < 5 else f"{number:.0f} s ago"


def clients(came: Iterable[tuple[str, str, float]], now: float) -> str:
    """Return which clients came how often, and when last; "" for none.

    ``came``: the client, the session and the time of each request; times in seconds.
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
    """Return the end of a sentence: which of ``known`` looks like ``name``, "" if none does."""
    near = get_close_matches(name, list(known), 1, 0.66)
    return f". Did you mean {near[0]}?" if near else ""


def visible(line: str) -> str:
    """Return ``line`` as a terminal may have it: a dot for each character that it would obey.

    Halves of characters, which JSON can spell and no terminal print, become question marks.
    """
    return _CONTROL.sub("·", line).encode("utf-8", "replace").decode()
