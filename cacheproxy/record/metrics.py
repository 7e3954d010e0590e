"""All metrics, a row each: name, labels, help text, and the amount that an exchange adds.

docs/metrics.md lists the same. Names and units follow Prometheus: base units (seconds, tokens),
``_total`` for what only grows (https://prometheus.io/docs/practices/naming/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cacheproxy.core.conversation.speeds import generation_speed, prefill_speed
from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.record.exchange import Exchange

UNKNOWN = "unknown"
LONGEST = 256
"""Characters of a value that are read; what is used of it is far shorter."""
Amount = float | dict[str, float] | None
"""Amount that an exchange adds, or amounts by the value of the last label; None for none."""
BY_AMOUNT = ("source", "phase", "effect", "rule")
"""Labels whose values come with an amount, not from the exchange."""
_UPSTREAM = ("upstream",)
_CLIENT = ("upstream", "client")
_REQUEST = ("upstream", "request")
_ROUTE = ("upstream", "route")
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_ONCE: dict[str, Amount] = dict.fromkeys(
    ("requests_total", "turns_total", "breaks_total", "route_requests_total"), 1
)
_VERDICTS = {judgement: judgement.lower() for judgement in Judgement} | {Judgement.UNKNOWN: UNKNOWN}


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


def kind_of(exchange: Exchange) -> tuple[Any, ...]:
    """Return what ``labels_of`` depends on: two exchanges with equal values have equal labels."""
    verdict = exchange.verdict
    return (
        *(exchange.upstream, exchange.server, exchange.route, exchange.client[:LONGEST]),
        (exchange.model or "")[:LONGEST],
        *(exchange.outcome, exchange.status, exchange.turn > 0, exchange.side),
        *((None, None) if verdict is None else (verdict.judgement, verdict.reason)),
    )


def amounts_of(exchange: Exchange) -> dict[str, Amount]:
    """Return the amounts that ``exchange`` adds to each metric, if it has the metric's labels."""
    usage, spared, verdict = exchange.usage, exchange.spared, exchange.verdict
    evaluated, output = usage.evaluated, usage.output
    prompt: dict[str, float] = {}
    if evaluated is not None and usage.reused is not None:
        prompt = {"reused": usage.reused, "evaluated": evaluated}
    elif usage.prompt is not None:
        prompt = {UNKNOWN: usage.prompt}
    tokens = prompt if output is None else {**prompt, "generated": output}
    timed, seconds = dict[str, float](), dict[str, float]()
    if exchange.turn and usage.prompt_seconds and prefill_speed(usage) is not None:
        timed["prompt"], seconds["prompt"] = evaluated or 0, usage.prompt_seconds or 0
    if exchange.turn and usage.output_seconds and generation_speed(usage) is not None:
        timed["output"], seconds["output"] = output or 0, usage.output_seconds or 0
    saved, saved_seconds = dict[str, float](), dict[str, float]()
    if spared is not None and spared.tokens and verdict is not None and not exchange.went_wrong:
        effect = "spared" if spared.tokens > 0 else "added"
        saved[effect] = abs(spared.tokens)
        if spared.seconds is not None:
            saved_seconds[effect] = abs(spared.seconds)
    edits = dict[str, float]()
    for report in exchange.reports:
        if report.edits:
            edits[report.rule] = len(report.edits)
    lost = None if verdict is None else verdict.lost
    return {
        **_ONCE,
        "prompt_tokens_total": prompt if exchange.turn else None,
        "generated_tokens_total": output if exchange.turn else None,
        "model_tokens_total": tokens,
        "timed_tokens_total": timed,
        "timed_seconds_total": seconds,
        "lost_tokens_total": None if lost is None else lost.tokens,
        "rule_tokens_total": saved,
        "rule_seconds_total": saved_seconds,
        "rule_hits_total": dict.fromkeys(edits, 1),
        "rule_edits_total": edits,
        "route_tokens_total": tokens,
        "route_price_total": exchange.price,
        "moved_total": 1 if exchange.was_at and exchange.has_moved else None,
        "queued_seconds_total": exchange.queued,
        "first_byte_seconds": exchange.first_byte,
        "request_duration_seconds": exchange.seconds,
        "edit_seconds": exchange.edited_after if exchange.received.body else None,
        "added_latency_seconds": exchange.sent_after,
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
    MetricRow(
        "generated_tokens_total",
        _CLIENT,
        "Tokens the server generated",
    ),
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
    MetricRow(
        "breaks_total",
        (*_CLIENT, "reason"),
        "Turns that lost the prompt cache, by reason",
    ),
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
        "rule_hits_total",
        ("rule",),
        "Requests that a rule edited; 0 for one that never did",
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
    MetricRow(
        "moved_total",
        _UPSTREAM,
        "Turns whose conversation was at another upstream before",
    ),
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
