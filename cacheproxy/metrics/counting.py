"""The observer that counts every finished exchange: figures and names, nothing of its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from cacheproxy import hookimpl
from cacheproxy.core.exchange import Exchange
from cacheproxy.core.redact import carried
from cacheproxy.core.request import Request
from cacheproxy.core.session import client_of
from cacheproxy.core.verdict import Judgement, Verdict
from cacheproxy.metrics import table
from cacheproxy.metrics.collectors import counter, histogram
from cacheproxy.metrics.labels import UNKNOWN, Labels
from cacheproxy.observe.body import body_of
from cacheproxy.totals.record import spared_by_rules

Raise = Callable[[float], object]
_MOST_UPSTREAMS = 4
_MOST_CLIENTS = 24
_MOST_MODELS = 24
_MOST_RULES = 200
_VERDICTS = {
    Judgement.OK: "ok",
    Judgement.COLD: "cold",
    Judgement.BREAK: "break",
    Judgement.UNKNOWN: UNKNOWN,
}


@dataclass(slots=True)
class _Kept:
    """Children by their label values: finding one anew costs several times what counting does."""

    parent: Counter | Histogram
    children: dict[tuple[str, ...], Raise] = field(default_factory=dict)

    def at(self, *values: str) -> Raise:
        """Return what counts for ``values``."""
        found = self.children.get(values)
        if found is None:
            child = self.parent.labels(*values)
            found = child.inc if isinstance(child, Counter) else child.observe
            self.children[values] = found
        return found


class Metrics:
    """Counts into collectors of its own registry. For one thread, but for who reads the registry.

    How many label values there may be is bounded, those that clients choose (their names, models)
    and those of the configuration alike.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._upstreams = Labels(_MOST_UPSTREAMS)
        self._clients = Labels(_MOST_CLIENTS)
        self._models = Labels(_MOST_MODELS)
        self._rules = Labels(_MOST_RULES)
        count = partial(_counter, registry=self.registry)
        self._requests = count(table.REQUESTS)
        self._prompt = count(table.PROMPT_TOKENS)
        self._generated = count(table.GENERATED_TOKENS)
        self._model = count(table.MODEL_TOKENS)
        self._timed_tokens = count(table.TIMED_TOKENS)
        self._timed_seconds = count(table.TIMED_SECONDS)
        self._turns = count(table.TURNS)
        self._breaks = count(table.BREAKS)
        self._lost = count(table.LOST_TOKENS)
        self._rule_tokens = count(table.RULE_TOKENS)
        self._hits = count(table.RULE_HITS)
        self._edits = count(table.RULE_EDITS)
        self._first_byte = _Kept(histogram(table.FIRST_BYTE, self.registry))
        self._duration = _Kept(histogram(table.DURATION, self.registry))
        self._edit = _Kept(histogram(table.EDIT, self.registry))
        self._added = _Kept(histogram(table.ADDED, self.registry))

    def expect(self, rule: str) -> None:
        """Show ``rule`` as one that has not fired, until it does."""
        name = self._rules.of(rule)
        self._hits.at(name)
        self._edits.at(name)

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange: Exchange) -> None:
        """Count the exchange."""
        received, session = exchange.received, exchange.session

        def known() -> tuple[bytes, ...]:
            return tuple(carried(received.headers, received.target))

        upstream = self._upstreams.of(exchange.upstream)
        client = self._clients.of(
            session.client if session is not None else client_of(received), known
        )
        outcome = exchange.outcome.replace(" ", "_")
        self._requests.at(upstream, client, outcome, _class_of(exchange.status))(1)
        self._count_times(exchange, upstream)
        if exchange.turn:
            model = self._models.of(_model(exchange.sent or received) or UNKNOWN, known)
            self._count_tokens(exchange, upstream, client, model)
        if exchange.verdict is not None:
            self._count_verdict(exchange, exchange.verdict, upstream, client)
        for report in exchange.reports:
            if report.edits:
                rule = self._rules.of(report.rule)
                self._hits.at(rule)(1)
                self._edits.at(rule)(len(report.edits))

    def _count_times(self, exchange: Exchange, upstream: str) -> None:
        request = "other" if not exchange.turn else "side" if exchange.side else "turn"
        self._duration.at(upstream, request)(exchange.seconds)
        if exchange.first_byte is not None:
            self._first_byte.at(upstream, request)(exchange.first_byte)
        if exchange.edited_after is not None and exchange.received.body:
            self._edit.at(upstream)(exchange.edited_after)
        if exchange.sent_after is not None:
            self._added.at(upstream)(exchange.sent_after)

    def _count_tokens(self, exchange: Exchange, upstream: str, client: str, model: str) -> None:
        usage = exchange.usage
        evaluated = usage.evaluated
        if usage.prompt is not None and (evaluated is None or usage.reused is None):
            self._prompt.at(upstream, client, UNKNOWN)(usage.prompt)
            self._model.at(upstream, model, UNKNOWN)(usage.prompt)
        elif evaluated is not None and usage.reused is not None:
            for source, tokens in (("reused", usage.reused), ("evaluated", evaluated)):
                self._prompt.at(upstream, client, source)(tokens)
                self._model.at(upstream, model, source)(tokens)
        if usage.output is not None:
            self._generated.at(upstream, client)(usage.output)
            self._model.at(upstream, model, "generated")(usage.output)
        for phase, timed, seconds in (
            ("prompt", evaluated, usage.prompt_seconds),
            ("output", usage.output, usage.output_seconds),
        ):
            if timed is not None and seconds is not None:
                self._timed_tokens.at(upstream, phase)(timed)
                self._timed_seconds.at(upstream, phase)(seconds)

    def _count_verdict(
        self, exchange: Exchange, verdict: Verdict, upstream: str, client: str
    ) -> None:
        spared = spared_by_rules(exchange.usage.reused, verdict)
        if spared:
            self._rule_tokens.at(upstream, "spared" if spared > 0 else "added")(abs(spared))
        if exchange.side:  # what comes beside a conversation is expected to differ from it
            return
        self._turns.at(upstream, client, _VERDICTS[verdict.judgement])(1)
        if verdict.reason is not None:
            self._breaks.at(upstream, client, verdict.reason)(1)
            if verdict.lost is not None:
                self._lost.at(upstream, verdict.reason)(verdict.lost.tokens)


def _counter(row: table.Row, registry: CollectorRegistry) -> _Kept:
    return _Kept(counter(row, registry))


def _class_of(status: int | None) -> str:
    """``2xx``; ``none`` if the client got no answer."""
    return "none" if status is None else f"{status // 100}xx"


def _model(request: Request) -> str | None:
    model = body_of(request).get("model")
    return model if isinstance(model, str) else None
