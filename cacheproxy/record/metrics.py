"""All metrics, a row each: name, labels, help text, and the amount that an exchange adds.

docs/metrics.md lists the same. Names and units follow Prometheus: base units (seconds, tokens),
``_total`` for what only grows (https://prometheus.io/docs/practices/naming/).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Any

from cacheproxy.core.conversation.speeds import generation_speed, prefill_speed
from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.record.columns import IS_SOME
from cacheproxy.record.exchange import Exchange

UNKNOWN = "unknown"
LONGEST = 256
"""Characters of a value that are read; what is used of it is far shorter."""
Amounts = Sequence[float | None] | dict[str, list[float | None]]
"""Amount that each exchange adds, None for none; or such amounts by the value of the last label."""
BY_AMOUNT = ("source", "phase", "effect", "rule")
"""Labels whose values come with an amount, not from the exchange."""
_UPSTREAM = ("upstream",)
_CLIENT = ("upstream", "client")
_REQUEST = ("upstream", "request")
_ROUTE = ("upstream", "route")
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_ONCE = ("requests_total", "turns_total", "breaks_total", "route_requests_total", "moved_total")
"""Metrics to which each exchange adds 1."""
_VERDICTS = {judgement: judgement.lower() for judgement in Judgement} | {Judgement.UNKNOWN: UNKNOWN}
_PLAIN = attrgetter("upstream", "server", "route", "outcome", "status", "side")
_EVALUATED, _REUSED, _OUTPUT = map(attrgetter, ("evaluated", "reused", "output"))
_FIELDS = {
    "lost_tokens_total": "lost",
    "route_price_total": "price",
    "queued_seconds_total": "queued",
    "first_byte_seconds": "first_byte",
    "request_duration_seconds": "seconds",
    "edit_seconds": "edited_after",
    "added_latency_seconds": "sent_after",
}
"""Metrics to which each exchange adds the value of a field."""
figures_of = attrgetter("usage", "spared", "edits", *_FIELDS.values())
"""Returns the figures of an exchange that ``amounts_of`` reads."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricRow:
    """One metric."""

    key: str  #: name without the prefix that all share
    labels: tuple[str, ...]  #: names of its labels
    help: str  #: help text
    buckets: tuple[float, ...] = ()  #: upper bounds of a histogram's buckets, in its unit

    @property
    def name(self) -> str:
        """The metric's full name, as Prometheus shows it."""
        return f"cacheproxy_{self.key}"

    @property
    def kind(self) -> str:
        """The metric's type, in Prometheus's words."""
        if self.buckets:
            return "histogram"
        return "counter" if self.key.endswith("_total") else "gauge"


def labels_of(exchange: Exchange) -> dict[str, str]:
    """Return the label values of ``exchange``; a metric counts it if it has all its labels."""
    status, turn = exchange.status, exchange.turn
    labels = {
        "upstream": exchange.upstream,
        "client": exchange.client,
        "outcome": (exchange.outcome or UNKNOWN).replace(" ", "_"),
        "status": "none" if status is None else f"{status // 100}xx",
        "request": "other" if not turn else "side" if exchange.side else "turn",
    }
    if turn:
        labels["model"] = exchange.model or UNKNOWN
    if exchange.server:
        labels["route"] = exchange.route or "none"
    verdict = exchange.verdict
    # A request beside a conversation is expected to differ from it.
    if verdict is not None and not exchange.side and not exchange.went_wrong:
        labels["verdict"] = _VERDICTS[verdict.judgement]
        if verdict.reason is not None:
            labels["reason"] = verdict.reason
    return labels


def left_out_of(exchange: Exchange) -> set[str]:
    """Return the metrics that do not count ``exchange``, even if it has all their labels."""
    found = set[str]()
    if not exchange.turn:
        found |= {"prompt_tokens_total", "generated_tokens_total"}
        found |= {"timed_tokens_total", "timed_seconds_total"}
    if exchange.verdict is None or exchange.went_wrong:  # then nothing is due to the rules
        found |= {"rule_tokens_total", "rule_seconds_total"}
    if not exchange.has_moved:
        found.add("moved_total")
    if not exchange.received.body:
        found.add("edit_seconds")
    return found


def kind_of(exchange: Exchange) -> tuple[Any, ...]:
    """Return what ``labels_of`` and ``left_out_of`` depend on: if equal, their results are."""
    verdict = exchange.verdict
    return (
        _PLAIN(exchange),
        exchange.client[:LONGEST],
        (exchange.model or "")[:LONGEST],
        exchange.turn > 0,
        verdict and verdict.judgement,
        verdict and verdict.reason,
        exchange.was_at in ("", exchange.server),
        not exchange.received.body,
    )


def amounts_of(figures: Iterable[tuple[Any, ...]]) -> dict[str, Amounts]:
    """Return what exchanges of one kind, by their ``figures``, add to metrics that count them."""
    usages, spared, edits, *fields = zip(*figures, strict=True)
    evaluated, output = [*map(_EVALUATED, usages)], [*map(_OUTPUT, usages)]
    prompt = {
        "reused": [*compress(map(_REUSED, usages), map(IS_SOME, evaluated))],
        "evaluated": evaluated,
        UNKNOWN: [one.prompt for one in usages if one.evaluated is None],
    }
    tokens = {**prompt, "generated": output}
    read = [one for one in usages if one.prompt_seconds and prefill_speed(one) is not None]
    said = [one for one in usages if one.output_seconds and generation_speed(one) is not None]
    known = [*filter(IS_SOME, spared)]
    due = {"spared": [one for one in known if one.tokens > 0]}
    due["added"] = [one for one in known if one.tokens < 0]
    rules: dict[str, list[float | None]] = {}
    for each, times in Counter(edits).items():
        for rule, count in {rule: count for rule, count, _ in each}.items():
            rules.setdefault(rule, []).extend([count] * times)
    return {
        **dict.fromkeys(_ONCE, [1] * len(usages)),
        **dict(zip(_FIELDS, fields, strict=True)),
        "prompt_tokens_total": prompt,
        "generated_tokens_total": output,
        "model_tokens_total": tokens,
        "timed_tokens_total": {"prompt": [*map(_EVALUATED, read)], "output": [*map(_OUTPUT, said)]},
        "timed_seconds_total": {
            "prompt": [one.prompt_seconds for one in read],
            "output": [one.output_seconds for one in said],
        },
        "rule_tokens_total": {way: [abs(one.tokens) for one in due[way]] for way in due},
        "rule_seconds_total": {
            way: [one.seconds and abs(one.seconds) for one in due[way]] for way in due
        },
        "rule_hits_total": {rule: [1] * len(rules[rule]) for rule in rules},
        "rule_edits_total": rules,
        "route_tokens_total": tokens,
    }


COUNTED = (
    MetricRow(
        "requests_total",
        (*_CLIENT, "outcome", "status"),
        "Requests relayed to their end, by how they ended and the class of their status",
    ),
    MetricRow(
        "prompt_tokens_total",
        (*_CLIENT, "source"),
        "Prompt tokens as the server counted them: reused from its cache, evaluated, or unknown",
    ),
    MetricRow("generated_tokens_total", _CLIENT, "Tokens the server generated"),
    MetricRow(
        "model_tokens_total",
        ("upstream", "model", "source"),
        "The same tokens by model: reused, evaluated, unknown, or generated",
    ),
    MetricRow(
        "timed_tokens_total",
        (*_UPSTREAM, "phase"),
        "Tokens evaluated (prompt) or generated (output), of answers long enough to tell a speed",
    ),
    MetricRow(
        "timed_seconds_total",
        (*_UPSTREAM, "phase"),
        "Seconds the server spent on those tokens, as it says itself",
    ),
    MetricRow(
        "turns_total",
        (*_CLIENT, "verdict"),
        "Turns of conversations by their verdict: ok, cold, compacted, cut, break, or unknown",
    ),
    MetricRow("breaks_total", (*_CLIENT, "reason"), "Turns that lost the prompt cache, by reason"),
    MetricRow(
        "lost_tokens_total",
        (*_UPSTREAM, "reason"),
        "Tokens of the turn before that such turns had evaluated again",
    ),
    MetricRow(
        "rule_tokens_total",
        (*_UPSTREAM, "effect"),
        "Tokens not evaluated thanks to cacheproxy (spared), or evaluated because of it (added); "
        "an estimate",
    ),
    MetricRow(
        "rule_seconds_total",
        (*_UPSTREAM, "effect"),
        "Seconds of prefill that turns were spared or took longer, priced once, as each turn ended",
    ),
    MetricRow(
        "rule_hits_total", ("rule",), "Requests that a rule edited; 0 for one that never did"
    ),
    MetricRow("rule_edits_total", ("rule",), "Places that a rule edited"),
    MetricRow(
        "route_requests_total",
        _ROUTE,
        "Requests by the route they took, where there are several upstreams",
    ),
    MetricRow(
        "route_tokens_total",
        (*_ROUTE, "source"),
        "Their tokens: reused, evaluated, unknown, or generated",
    ),
    MetricRow(
        "route_price_total",
        _ROUTE,
        "What the upstream charges for them, by the prices of the configuration",
    ),
    MetricRow("moved_total", _UPSTREAM, "Turns whose conversation was at another upstream before"),
    MetricRow(
        "queued_seconds_total",
        _CLIENT,
        "Seconds that requests waited for others at their server, by --crowd",
    ),
    MetricRow(
        "first_byte_seconds",
        _REQUEST,
        "Time from the request, read in full, to the first byte of the answer's body",
        _SLOW,
    ),
    MetricRow(
        "request_duration_seconds",
        _REQUEST,
        "Time from the request, read in full, to the end of the answer",
        _SLOW,
    ),
    MetricRow(
        "edit_seconds",
        _UPSTREAM,
        "Time that the rules and the session's name took, waiting for a thread included",
        _FAST,
    ),
    MetricRow(
        "added_latency_seconds",
        _UPSTREAM,
        "Time from the request, read in full, until it was sent upstream: what the proxy adds",
        _FAST,
    ),
)
"""Metrics that count exchanges, by their names in the result of ``amounts_of``."""

FAILURES = MetricRow(
    "failures_total",
    ("name", "kind"),
    "Times that a rule or hook raised (failed), was too slow (timed_out) or was not shown an "
    "exchange (dropped)",
)
LEFT_OUT = MetricRow(
    "left_out", ("name",), "1 for a rule or hook that is not called any more, else 0"
)
CONNECTIONS = MetricRow("connections", (), "Open client connections")
STREAMS = MetricRow(
    "open_requests", (), "Requests under way, those for the proxy's own pages left out"
)
UP = MetricRow("upstream_up", _UPSTREAM, "1 if the upstream answered the last look at it, else 0")
POLL_AGE = MetricRow("poll_age_seconds", _UPSTREAM, "Time since the last look at the upstream")
SLOTS = MetricRow("upstream_slots", (*_UPSTREAM, "state"), "Slots of llama-server: busy or idle")
KV_USED = MetricRow("upstream_kv_used_ratio", _UPSTREAM, "Share of the KV cache in use, 0 to 1")
WARMED = MetricRow(
    "warmed_tokens_total",
    _UPSTREAM,
    "Tokens that a restarted server read again without a request of a client",
)
BUILD = MetricRow("build_info", ("version", "python"), "Always 1; its labels say what runs")
