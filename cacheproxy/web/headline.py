"""The first thing to be read: whether the cache works, and what of it is due to the proxy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from cacheproxy.core.judge.explain import BROKEN, FELT, share_in_words
from cacheproxy.totals.windows import WINDOWS
from cacheproxy.words import counted

Json = dict[str, Any]

_LITTLE = 0.5
_SPARED = (
    "estimate: where prompts part with and without us; each priced once, when it happened, at the "
    "speed of prefill that its server showed then"
)


class CacheState(StrEnum):
    """How the cache stands in a window; the page's colour only repeats it."""

    EMPTY = "empty"
    UNMEASURED = "unmeasured"
    COLD = "cold"
    WORKING = "working"
    HITCHES = "hitches"
    BREAKING = "breaking"


_TITLES = {
    CacheState.EMPTY: "No requests yet",
    CacheState.UNMEASURED: "Not measured",
    CacheState.COLD: "First turns only",
    CacheState.WORKING: "Cache is working",
    CacheState.HITCHES: "Cache works, with breaks",
    CacheState.BREAKING: "Cache is breaking",
}


def headline(window: str, sums: Mapping[str, Any]) -> Json:
    """Return the verdict on a window, from its ``sums`` (see totals.windows.overview).

    In the result, ``share`` is of the prompt tokens for which the server said both; ``seconds``: of
    prefill not spent, None where nobody knew the price; ``unpriced``: tokens that are not in them.
    """
    known = sums["reused"] + sums["evaluated"]
    standing = _standing(sums, known)
    spared = sums["spared"]
    return {
        "standing": standing,
        "title": _TITLES[standing],
        "text": _text(standing, window, sums, known),
        "share": sums["reused"] / known if known else None,
        "reused": sums["reused"],
        "evaluated": sums["evaluated"],
        "due": {
            "tokens": spared,
            "seconds": sums["spared_seconds"] if spared != sums["unpriced"] or not spared else None,
            "unpriced": sums["unpriced"],
            "source": _SPARED,
        },
    }


def without(sums: Mapping[str, Any]) -> float | None:
    """Return the share that would have been reused without the proxy, None if nobody knows."""
    known = sums["reused"] + sums["evaluated"]
    return min(1.0, max(0.0, (sums["reused"] - sums["spared"]) / known)) if known else None


def _standing(sums: Mapping[str, Any], known: int) -> CacheState:
    if not sums["turns"]:
        return CacheState.EMPTY
    if not known:
        return CacheState.UNMEASURED
    lost = sums["lost"] / known
    if lost >= FELT:
        return CacheState.BREAKING if lost >= BROKEN else CacheState.HITCHES
    return CacheState.COLD if sums["reused"] / known < _LITTLE else CacheState.WORKING


def _text(standing: CacheState, window: str, sums: Mapping[str, Any], known: int) -> str:
    when = f"in the last {WINDOWS[window].name}"
    if standing is CacheState.EMPTY:
        return f"No figures {when}."
    if standing is CacheState.UNMEASURED:
        return "The server does not say what it reused."
    said = "No breaks" if not sums["breaks"] else _breaks(sums, known)
    if standing is CacheState.COLD:
        return f"{said} {when}: most prompts were new to the server."
    return f"{said} {when}."


def _breaks(sums: Mapping[str, Any], known: int) -> str:
    breaks, lost = counted(sums["breaks"], "break"), sums["lost"]
    return f"{breaks} cost {lost:,} tokens, {share_in_words(lost / known)} of all,"
