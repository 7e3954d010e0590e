"""The windows of time that pages show, and the queries for their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cacheproxy.core.judge.advice import may_be_curable
from cacheproxy.core.judge.explain import phrase
from cacheproxy.record.columns import Json, Shown
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.sums import ALL, BREAKS, EVER, FIRSTS, GROUPS, IS_BREAK, SCOPE, class_middle


@dataclass(frozen=True, slots=True)
class Window:
    """A period up to now that the page can show."""

    name: str  #: words after "the last"
    length: int  #: in ms
    bucket: int  #: length of a bucket of its series, in ms
    step: int  #: step of the sums it is made of, in ms; 0: made of the exchanges

    def start(self, now: int) -> int:
        """Return the start (ms) of the window that ends ``now``, on the start of a bucket."""
        return now // self.bucket * self.bucket + self.bucket - self.length


WINDOWS = {
    "15m": Window("15 minutes", 900_000, 15_000, 0),
    "1h": Window("hour", 3_600_000, 60_000, 60_000),
    "24h": Window("24 hours", 86_400_000, 900_000, 60_000),
    "30d": Window("30 days", 30 * 86_400_000, 6 * 3_600_000, 3_600_000),
}

_BREAKS = """
WITH f AS ({source})
SELECT r.text AS reason, s.text AS shape, f.count, CAST(f.lost AS INTEGER) AS lost,
    f.lost / nullif(k.tokens, 0) AS share, f.lost_ms / 1e3 AS seconds, e.place,
    iif(f.last >= :first, e.number, NULL) AS number
FROM f JOIN (SELECT total(reused) + total(evaluated) AS tokens FROM ({all})) AS k
JOIN words AS r ON r.id = f.reason LEFT JOIN words AS s ON s.id = f.shape
LEFT JOIN exchanges AS e ON e.id = f.last
ORDER BY f.lost DESC, f.count DESC
"""
_MOST = 50
_KEYS = ("client", "model", "upstream")
_GROUPS = f"""
SELECT f.client, coalesce(m.text, u.served) AS model, u.url AS upstream,
    {", ".join(f"CAST(sum(f.{name}) AS INTEGER) AS {name}" for name in GROUPS.sums)}
FROM ({{source}}) AS f LEFT JOIN words AS m ON m.id = f.model
LEFT JOIN upstreams AS u ON u.id = f.upstream GROUP BY 1, 2, 3
"""  # noqa: S608 - our own names
_LAST_BREAK = f"""
SELECT * FROM exchanges INDEXED BY exchanges_breaks
WHERE {IS_BREAK} AND {SCOPE} ORDER BY at DESC, id DESC LIMIT 1
"""  # noqa: S608
_OF_BREAK = (
    *("number", "at", "client", "session", "label", "turn", "reason", "lost"),
    "lost_seconds",
)
_OF_BUCKET = ("requests", "breaks", "prompt", "reused", "evaluated", "lost")


def overview(store: TotalsStore, name: str, now: int) -> Json:
    """Return sums and series of the window ``name`` (one of WINDOWS) that ends ``now`` (ms).

    Times are in seconds since the epoch, lengths in seconds. ``series``: the buckets that are not
    empty. Raises KeyError for an unknown window.
    """
    window, scope = WINDOWS[name], scope_of(name, now)
    rows = store.rows(ALL.of(window.step, at="at / :bucket * :bucket"), scope)
    sums = _summed(rows)
    return {
        "window": name,
        "start": scope["start"] / 1e3,
        "end": scope["end"] / 1e3,
        "bucket": window.bucket / 1e3,
        "sums": {
            **_shown(sums),
            "first_median": _median_first(store, window, scope),
            "added": sums["added_us"] / sums["sent"] / 1e6 if sums["sent"] else None,
        },
        "series": [{"at": each["at"] / 1e3, **_bucket(each)} for each in rows],
    }


def breaks(store: TotalsStore, name: str, now: int) -> list[Json]:
    """Return the causes of breaks in the window, by reason and shape, the costliest first.

    ``lost``: tokens evaluated again; ``share``: their part of the window's prompt tokens (None if
    no server reported both figures); ``seconds``: their prefill. ``place`` and ``number`` are the
    latest break's; ``number`` is None if that was before the proxy started.
    """
    step, scope = WINDOWS[name].step, {**scope_of(name, now), "first": store.first}
    everything = ALL.of(step, upstream="upstream")
    return store.rows(_BREAKS.format(source=BREAKS.of(step), all=everything), scope)


def lifetime(store: TotalsStore) -> Json:
    """Return the lifetime totals: the sums of all exchanges, over all restarts.

    ``since``: start of the first, in seconds since the epoch; None if there was none.
    """
    since = "(SELECT first_seen FROM upstreams WHERE id = upstream)"
    rows = store.rows(ALL.of(EVER, since=since), {"start": 0, "end": EVER, "step": EVER})
    return {
        "since": min((each["since"] / 1e3 for each in rows), default=None),
        **_shown(_summed(rows)),
    }


def scope_of(name: str, now: int) -> dict[str, int]:
    """Return the parameters of ``Rollup.of``'s query, for the window ``name`` that ends ``now``."""
    window = WINDOWS[name]
    start, end = window.start(now), window.start(now) + window.length
    return {"start": start, "end": end, "bucket": window.bucket, "step": window.step}


def _summed(rows: Sequence[Json]) -> Json:
    return {name: sum(int(each[name]) for each in rows) for name in ALL.sums} | {
        name: max((each[name] for each in rows), default=0) for name in ALL.longest
    }


def _shown(sums: Json) -> Json:
    return _bucket(sums) | {
        **{name: int(sums[name]) for name in ("turns", "output", "spared", "unpriced")},
        "errors": int(sums["failed"]),
        "spared_seconds": sums["spared_ms"] / 1e3,
    }


def _bucket(sums: Json) -> Json:
    return {name: int(sums[name]) for name in _OF_BUCKET} | {
        "first_worst": sums["first_ms"] / 1e3 if sums["first_ms"] else None,
        "prefill_speed": _speed(sums["timed_prompt"], sums["prompt_ms"]),
        "generation_speed": _speed(sums["timed_output"], sums["output_ms"]),
        "context": sums["context"] or None,
    }


def _speed(tokens: float, milliseconds: float) -> float | None:
    return tokens * 1e3 / milliseconds if tokens and milliseconds else None


def _median_first(store: TotalsStore, window: Window, scope: dict[str, int]) -> float | None:
    """Return the median time of turns to their first byte, in s: exact, or within 9 %."""
    execute = store.connection.execute
    if not window.step:
        waits = execute(
            f"SELECT first_ms FROM exchanges WHERE {SCOPE} AND {FIRSTS.only}",  # noqa: S608
            scope,
        ).fetchall()
        return median(wait for (wait,) in waits) / 1e3 if waits else None
    classes = execute(FIRSTS.of(window.step), scope).fetchall()
    left = sum(count for _, count in classes) / 2
    for number, count in classes:
        left -= count
        if left <= 0:
            return class_middle(number) / 1e3
    return None


def groups(store: TotalsStore, name: str, now: int) -> Json:
    """Return the sums of the window ``name`` by client, model and upstream.

    Groups with the most prompt tokens come first. Requests whose client (or model) is not known
    are left out of the sums by client (or model).
    """
    source = GROUPS.of(WINDOWS[name].step, upstream="upstream")
    rows = store.rows(_GROUPS.format(source=source), scope_of(name, now))
    return {key: _by(key, rows) for key in _KEYS}


def routed(store: TotalsStore) -> list[Json]:
    """Return the requests of each route to each upstream, over all restarts, the most used first.

    Tokens are those that the answers report; ``price``: their cost by the configuration.
    """
    return store.rows(
        "SELECT url AS upstream, route, requests, prompt, reused, price "
        "FROM routed JOIN upstreams ON upstreams.id = upstream ORDER BY requests DESC LIMIT 64"
    )


def _by(key: str, rows: list[Json]) -> list[Json]:
    """Return the sums of ``rows`` by their name in column ``key``."""
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

    ``number`` is None if it was before the proxy started. ``cure``: whether a rule may cure it.
    """
    for row in store.shown(Shown.REQUESTS, _LAST_BREAK, scope_of(name, now)):
        reason, shape = row["reason"], row["shape"]
        is_curable = row["number"] is not None and may_be_curable(reason, shape)
        found = {key: row[key] for key in _OF_BREAK}
        return found | {"phrase": phrase(reason, shape), "cure": is_curable}
    return None
