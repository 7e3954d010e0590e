"""What a window's requests add up to by client, model and upstream; and the last break."""

from __future__ import annotations

from cacheproxy.core.judge.advice import may_be_curable
from cacheproxy.core.judge.explain import phrase
from cacheproxy.totals.store import Json, TotalsStore
from cacheproxy.totals.sums import GROUPS, IS_BREAK, SCOPE
from cacheproxy.totals.windows import WINDOWS, scope_of

_MOST = 50
_KEYS = ("client", "model", "upstream")
_GROUPS = f"""
SELECT f.client, coalesce(m.text, u.served) AS model, u.url AS upstream,
    {", ".join(f"CAST(sum(f.{name}) AS INTEGER) AS {name}" for name in GROUPS.sums)}
FROM ({{source}}) AS f LEFT JOIN words AS m ON m.id = f.model
LEFT JOIN upstreams AS u ON u.id = f.upstream GROUP BY 1, 2, 3
"""  # noqa: S608 - our own names
_LAST_BREAK = f"""
SELECT iif(e.id >= :first, e.number, NULL) AS number, e.at / 1e3 AS at, s.client,
    s.name AS session, e.turn, r.text AS reason, k.text AS shape, e.lost,
    e.lost_ms / 1e3 AS lost_seconds
FROM (
    SELECT * FROM exchanges INDEXED BY exchanges_breaks
    WHERE {IS_BREAK} AND {SCOPE} ORDER BY id DESC LIMIT 1
) AS e
LEFT JOIN sessions AS s ON s.id = e.session
LEFT JOIN words AS r ON r.id = e.reason LEFT JOIN words AS k ON k.id = e.shape
"""  # noqa: S608


def groups(store: TotalsStore, name: str, now: int) -> Json:
    """Return the sums of the window ``name`` by client, model and upstream.

    Those with the most prompt tokens come first. Requests of which nobody knows the client, or the
    model, are not in these.
    """
    window = WINDOWS[name]
    source = GROUPS.of(window.step, upstream="upstream")
    rows = store.rows(_GROUPS.format(source=source), scope_of(window, now))
    return {key: _by(key, rows) for key in _KEYS}


def routed(store: TotalsStore) -> list[Json]:
    """Return what each upstream did for each route, over all restarts: those asked most first.

    Tokens are those that answers told; ``price``: what they cost by the configuration.
    """
    return store.rows(
        "SELECT url AS upstream, route, requests, prompt, reused, price "
        "FROM routed JOIN upstreams ON upstreams.id = upstream ORDER BY requests DESC LIMIT 64"
    )


def _by(key: str, rows: list[Json]) -> list[Json]:
    """Return the sums of ``rows`` for each name that they have for ``key``."""
    sums: dict[str, Json] = {}
    for row in rows:
        if row[key]:
            known = sums.setdefault(row[key], dict.fromkeys(GROUPS.sums, 0))
            for figure in known:
                known[figure] += row[figure]
    found = [
        {"name": name, "seconds": figures.pop("lost_ms") / 1e3, **figures}
        for name, figures in sums.items()
    ]
    return sorted(found, key=lambda one: (-one["prompt"], one["name"]))[:_MOST]


def last_break(store: TotalsStore, name: str, now: int) -> Json | None:
    """Return the last turn of the window ``name`` that broke the cache, None if none did.

    ``number``: None if it was before the proxy started. ``cure``: whether a rule may be proposed.
    """
    scope = {**scope_of(WINDOWS[name], now), "first": store.first}
    found = store.rows(_LAST_BREAK, scope)
    if not found:
        return None
    row = found[0]
    reason, shape = row["reason"], row.pop("shape")
    is_curable = row["number"] is not None and may_be_curable(reason, shape)
    return row | {"phrase": phrase(reason, shape), "cure": is_curable}
