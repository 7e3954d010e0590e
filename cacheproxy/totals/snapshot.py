"""The lifetime totals as they stand, each figure with its source."""

from __future__ import annotations

from cacheproxy.core.server.counters import NAMES
from cacheproxy.totals.lifetime import WAITING
from cacheproxy.totals.store import Json, Store

COUNTERS = "server counters"
RESPONSES = "responses"
BOTH = "server counters, and responses where they do not tell"
SPARED = (
    "estimate: where prompts part with and without us; each priced once, when it happened, at the "
    "speed of prefill that its server showed then"
)
_SECONDS = ("prefill", "generation")


def lifetime(store: Store) -> Json:
    """Return the totals of each upstream and model, and of all.

    Figures are ``{"value": …, "source": …}``. ``since``: seconds since the epoch, not later than
    the last look at the upstream, as a clock that was set back would have it. ``spared``: the
    tokens and seconds not spent thanks to us, estimates; ``unpriced``: tokens that are not in the
    seconds, which are None if that is all. ``waiting``: what is in none of these as yet.
    """
    targets = store.connection.execute(
        "SELECT targets.id, url, model, metrics, "
        "min(targets.first_seen, ifnull(last_seen, targets.first_seen)) / 1e3 FROM targets "
        "JOIN upstreams ON upstreams.id = upstream ORDER BY targets.id"
    )
    shown = [
        {
            "upstream": url,
            "model": model or None,
            "since": since,
            "metrics": metrics,
            **_figures(store, target),
        }
        for target, url, model, metrics, since in targets.fetchall()
    ]
    return {
        "since": min((each["since"] for each in shown), default=None),
        "targets": shown,
        "all": _figures(store),
        "waiting": _waiting(store),
    }


def routed(store: Store) -> list[Json]:
    """Return what each upstream did for each route, over all restarts: those asked most first.

    Tokens are those that answers told; ``price``: what they cost by the configuration.
    """
    return store.rows(
        "SELECT url AS upstream, route, requests, prompt, reused, price "
        "FROM routed JOIN upstreams ON upstreams.id = upstream ORDER BY requests DESC LIMIT 64"
    )


def _figures(store: Store, target: int | None = None) -> Json:
    """Return the figures of one target, or of all."""
    execute, scope = store.connection.execute, {"target": target}
    parts: dict[str, tuple[float, float]] = {
        figure: (counters, responses)
        for figure, counters, responses in execute(
            "SELECT figure, total(counters), total(responses) FROM lifetime "
            "WHERE target = ifnull(:target, target) GROUP BY figure",
            scope,
        )
    }
    breaks = store.rows(
        "SELECT reason, sum(count) AS count, sum(lost) AS lost, sum(lost_ms) / 1e3 AS seconds "
        "FROM lifetime_breaks WHERE target = ifnull(:target, target) GROUP BY reason",
        scope,
    )

    def own(name: str) -> float:
        return parts.get(name, (0.0, 0.0))[1]

    figures: Json = {}
    for name in NAMES:
        counters, responses = parts.get(name, (0.0, 0.0))
        value = counters + responses
        source = BOTH if counters and responses else COUNTERS if counters else RESPONSES
        figures[name] = {
            "value": value if name in _SECONDS else round(value),
            "source": source if value else None,
        }
    return {
        "figures": figures,
        "exchanges": round(own("exchanges")),
        "turns": round(own("turns")),
        "errors": round(own("errors")),
        "breaks": {each.pop("reason"): each for each in breaks},
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
    exchanges, tokens, seconds, unpriced, *figures = store.connection.execute(WAITING).fetchone()
    return {
        "exchanges": exchanges,
        **dict(zip(NAMES, figures, strict=True)),
        "spared": _spared(tokens, seconds, unpriced),
    }
