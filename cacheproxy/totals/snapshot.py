"""The lifetime totals as they stand, each figure with its source."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cacheproxy.core.server.counters import NAMES, NOTHING, settle, total
from cacheproxy.totals.lifetime import PENDING, pending_of
from cacheproxy.totals.store import Store

Json = dict[str, Any]

COUNTERS = "server counters"
RESPONSES = "responses"
BOTH = "server counters, and responses where they do not tell"
SPARED = (
    "estimate: where prompts part with and without us; each priced once, when it happened, at the "
    "speed of prefill that its server showed then"
)
_TOKENS = ("prompt", "reused", "evaluated", "generated", "requests")


def lifetime(store: Store) -> Json:
    """Return the totals of each upstream and model, and of all.

    Figures are ``{"value": …, "source": …}``. ``since``: seconds since the epoch. ``spared``: the
    tokens and seconds not spent thanks to us, estimates; ``unpriced``: tokens that are not in the
    seconds, which are None if that is all. ``waiting``: what is in none of these as yet.
    """
    execute = store.connection.execute
    parts: dict[int, dict[str, list[float]]] = defaultdict(dict)
    for target, figure, counters, responses in execute(
        "SELECT target, figure, counters, responses FROM lifetime"
    ):
        parts[target][figure] = [counters, responses]
    reasons: dict[int, Json] = defaultdict(dict)
    for target, reason, count, lost, lost_ms in execute("SELECT * FROM lifetime_breaks"):
        reasons[target][reason] = {"count": count, "lost": lost, "seconds": lost_ms / 1e3}
    targets = execute(
        "SELECT targets.id, url, model, targets.first_seen, metrics FROM targets "
        "JOIN upstreams ON upstreams.id = upstream ORDER BY targets.id"
    ).fetchall()
    shown = [
        {
            "upstream": url,
            "model": model or None,
            "since": since / 1e3,
            "metrics": metrics,
            **_figures(parts[target], reasons[target]),
        }
        for target, url, model, since, metrics in targets
    ]
    everything: dict[str, list[float]] = {}
    breaks: Json = {}
    for target, *_ in targets:
        for figure, (counters, responses) in parts[target].items():
            known = everything.setdefault(figure, [0.0, 0.0])
            known[0] += counters
            known[1] += responses
        for reason, each in reasons[target].items():
            known_break = breaks.setdefault(reason, {"count": 0, "lost": 0, "seconds": 0.0})
            for name, value in each.items():
                known_break[name] += value
    since = min((each["since"] for each in shown), default=None)
    return {
        "since": since,
        "targets": shown,
        "all": _figures(everything, breaks),
        "waiting": _waiting(store),
    }


def _figures(parts: dict[str, list[float]], breaks: Json) -> Json:
    def own(name: str) -> float:
        return parts.get(name, [0.0, 0.0])[1]

    figures: Json = {}
    for name in NAMES:
        counters, responses = parts.get(name, (0.0, 0.0))
        value = counters + responses
        source = BOTH if counters and responses else COUNTERS if counters else RESPONSES
        figures[name] = {
            "value": round(value) if name in _TOKENS else value,
            "source": source if value else None,
        }
    return {
        "figures": figures,
        "exchanges": round(own("exchanges")),
        "turns": round(own("turns")),
        "errors": round(own("errors")),
        "breaks": breaks,
        "spared": _spared(own("spared"), own("spared_seconds"), own("spared_unpriced")),
    }


def _spared(tokens: float, seconds: float, unpriced: float) -> Json:
    return {
        "tokens": round(tokens),
        "seconds": seconds if tokens != unpriced or not tokens else None,
        "unpriced": round(unpriced),
        "source": SPARED,
    }


def _waiting(store: Store) -> Json:
    """Return what the exchanges since the last look at their upstream tell: not in the totals."""
    count = tokens = milliseconds = unpriced = 0
    figures = NOTHING
    for upstream, settled in store.connection.execute("SELECT id, settled FROM upstreams"):
        pending = [
            pending_of(row) for row in store.connection.execute(PENDING, (upstream, settled))
        ]
        count += len(pending)
        figures += total(settle([each.told for each in pending], None).tails)
        tokens += sum(each.spared for each in pending)
        milliseconds += sum(each.spared_ms or 0 for each in pending)
        unpriced += sum(each.spared for each in pending if each.spared_ms is None)
    return {
        "exchanges": count,
        **{name: getattr(figures, name) for name in NAMES},
        "spared": _spared(tokens, milliseconds / 1e3, unpriced),
    }
