"""How often each rule changed a request, told by the exchanges that a proxy has kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheproxy.cli.running import RunningError, get_json

MOST = 1000
"""Exchanges that are looked at: a page of 50 takes a few milliseconds."""
_KEPT = "/_cacheproxy/requests"
_REMEMBERED = "/_cacheproxy/exchanges"


@dataclass(frozen=True, slots=True)
class Fired:
    """``exchanges``: by rule, how many it changed. ``turns``: by client, how many there were.

    ``source``: where the counts come from, in words.
    """

    exchanges: Mapping[str, int]
    turns: Mapping[str, int]
    source: str

    def turns_of(self, client: str | None) -> int:
        """Return the turns of ``client``; None: of all."""
        return sum(self.turns.values()) if client is None else self.turns.get(client, 0)


def look(proxy: str, token: Mapping[str, str], most: int = MOST) -> Fired:
    """Ask the proxy at the URL ``proxy``; return the counts.

    Its totals know of what was before it was started; a proxy without that page tells what it
    remembers. Raises RunningError, or ValueError for an answer that is none.
    """
    try:
        rows, source = _kept(proxy, token, most), "has kept"
    except RunningError:
        rows = _list(get_json(proxy, _REMEMBERED, token), "exchanges")
        source = "remembers"
    return fired(rows, f"the last {len(rows):,} exchanges that the proxy at {proxy} {source}")


def _kept(proxy: str, token: Mapping[str, str], most: int) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    following: Any = 0
    query = ""
    while len(rows) < most and isinstance(following, int):
        page = get_json(proxy, _KEPT + query, token)
        rows += _list(page, "requests")
        following = page.get("next")
        query = f"?before={following}"
    return rows[:most]


def _list(page: Any, name: str) -> list[Mapping[str, Any]]:
    rows = page.get(name) if isinstance(page, dict) else None
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise ValueError("no list of exchanges")
    return rows


def fired(exchanges: list[Mapping[str, Any]], source: str) -> Fired:
    """Return the counts of what one of the two pages lists."""
    counts, turns = Counter[str](), Counter[str]()
    for each in exchanges:
        rules = each.get("rules")
        counts.update(list(rules) if isinstance(rules, dict | list) else ())
        if each.get("client") and each.get("turn") and not each.get("side"):
            turns[str(each["client"])] += 1
    return Fired(counts, turns, source)
