"""Every metric there is: its name, type, labels and what it says; docs/metrics.md lists the same.

Names and units as Prometheus has them: base units (seconds, tokens), ``_total`` on what only
grows (https://prometheus.io/docs/practices/naming/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

_UPSTREAM = ("upstream",)
_CLIENT = ("upstream", "client")
_REQUEST = ("upstream", "request")
_ROUTE = ("upstream", "route")
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


_FAMILIES = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


@dataclass(frozen=True, slots=True, eq=False)
class MetricRow:
    """One metric."""

    name: str  #: as it is asked for
    kind: Literal["counter", "gauge", "histogram"]  #: as Prometheus calls it
    labels: tuple[str, ...]  #: names of its labels
    says: str  #: its help
    buckets: tuple[float, ...] = ()  #: of a histogram, in its unit

    def family(self) -> Metric:
        """Return an empty family of prometheus-client, to be filled by ``add_metric``."""
        family: Metric = _FAMILIES[self.kind](self.name, self.says, labels=self.labels)
        return family


def _counter(name: str, labels: tuple[str, ...], says: str) -> MetricRow:
    return MetricRow(name, "counter", labels, says)


def _gauge(name: str, labels: tuple[str, ...], says: str) -> MetricRow:
    return MetricRow(name, "gauge", labels, says)


REQUESTS = _counter(
    "cacheproxy_requests_total",
    (*_CLIENT, "outcome", "status"),
    "Requests relayed to their end, by how they ended and the class of their status",
)
PROMPT_TOKENS = _counter(
    "cacheproxy_prompt_tokens_total",
    (*_CLIENT, "source"),
    "Prompt tokens as the server counted them: reused from its cache, evaluated, or unknown",
)
GENERATED_TOKENS = _counter(
    "cacheproxy_generated_tokens_total", _CLIENT, "Tokens the server generated"
)
MODEL_TOKENS = _counter(
    "cacheproxy_model_tokens_total",
    ("upstream", "model", "source"),
    "The same tokens by model: reused, evaluated, unknown, or generated",
)
TIMED_TOKENS = _counter(
    "cacheproxy_timed_tokens_total",
    (*_UPSTREAM, "phase"),
    "Tokens evaluated (prompt) or generated (output), of answers long enough to tell a speed",
)
TIMED_SECONDS = _counter(
    "cacheproxy_timed_seconds_total",
    (*_UPSTREAM, "phase"),
    "Seconds the server spent on those tokens, as it says itself",
)
TURNS = _counter(
    "cacheproxy_turns_total",
    (*_CLIENT, "verdict"),
    "Turns of conversations by their verdict: ok, cold, compacted, break, or unknown",
)
BREAKS = _counter(
    "cacheproxy_breaks_total",
    (*_CLIENT, "reason"),
    "Turns that lost the prompt cache, by reason",
)
LOST_TOKENS = _counter(
    "cacheproxy_lost_tokens_total",
    (*_UPSTREAM, "reason"),
    "Tokens of the turn before that such turns had evaluated again",
)
RULE_TOKENS = _counter(
    "cacheproxy_rule_tokens_total",
    (*_UPSTREAM, "effect"),
    "Tokens not evaluated thanks to cacheproxy (spared), or evaluated because of it (added); an "
    "estimate",
)
RULE_SECONDS = _counter(
    "cacheproxy_rule_seconds_total",
    (*_UPSTREAM, "effect"),
    "Seconds of prefill that turns were spared or took longer, priced once, as each turn ended",
)
RULE_HITS = _counter(
    "cacheproxy_rule_hits_total", ("rule",), "Requests that a rule edited; 0 for one that never did"
)
RULE_EDITS = _counter("cacheproxy_rule_edits_total", ("rule",), "Places that a rule edited")
ROUTE_REQUESTS = _counter(
    "cacheproxy_route_requests_total",
    _ROUTE,
    "Requests by the route they took, where there are several upstreams",
)
ROUTE_TOKENS = _counter(
    "cacheproxy_route_tokens_total",
    (*_ROUTE, "source"),
    "Their tokens: reused, evaluated, unknown, or generated",
)
ROUTE_PRICE = _counter(
    "cacheproxy_route_price_total",
    _ROUTE,
    "What the upstream charges for them, by the prices of the configuration",
)
MOVED = _counter(
    "cacheproxy_moved_total",
    _UPSTREAM,
    "Turns whose conversation was at another upstream before",
)
FIRST_BYTE = MetricRow(
    "cacheproxy_first_byte_seconds",
    "histogram",
    _REQUEST,
    "Time from the request, read in full, to the first byte of the answer's body",
    _SLOW,
)
DURATION = MetricRow(
    "cacheproxy_request_duration_seconds",
    "histogram",
    _REQUEST,
    "Time from the request, read in full, to the end of the answer",
    _SLOW,
)
EDIT = MetricRow(
    "cacheproxy_edit_seconds",
    "histogram",
    _UPSTREAM,
    "Time that the rules and the session's name took, waiting for a thread included",
    _FAST,
)
ADDED = MetricRow(
    "cacheproxy_added_latency_seconds",
    "histogram",
    _UPSTREAM,
    "Time from the request, read in full, until it was sent upstream: what the proxy adds",
    _FAST,
)

COUNTED = tuple(row for row in vars().values() if isinstance(row, MetricRow))
"""All of them, by exchanges; those below are what is so at the moment of asking."""
FAILURES = _counter(
    "cacheproxy_failures_total",
    ("name", "kind"),
    "Times that a rule or hook raised (failed), was late (timed_out) or was not shown an exchange "
    "(dropped)",
)
LEFT_OUT = _gauge(
    "cacheproxy_left_out", ("name",), "1 for a rule or hook that is not called any more, else 0"
)
CONNECTIONS = _gauge("cacheproxy_connections", (), "Open client connections")
STREAMS = _gauge(
    "cacheproxy_open_requests", (), "Requests under way, those for the proxy's own pages left out"
)
UP = _gauge(
    "cacheproxy_upstream_up", _UPSTREAM, "1 if the upstream answered the last look at it, else 0"
)
POLL_AGE = _gauge(
    "cacheproxy_poll_age_seconds", _UPSTREAM, "Time since the last look at the upstream"
)
SLOTS = _gauge(
    "cacheproxy_upstream_slots", (*_UPSTREAM, "state"), "Slots of llama-server: busy or idle"
)
KV_USED = _gauge(
    "cacheproxy_upstream_kv_used_ratio", _UPSTREAM, "Share of the KV cache in use, 0 to 1"
)
BUILD = _gauge("cacheproxy_build_info", ("version", "python"), "Always 1; its labels say what runs")
