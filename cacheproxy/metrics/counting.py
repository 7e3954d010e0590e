"""The observer that counts every finished exchange: figures and names, nothing of its content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from cacheproxy import hookimpl
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.speeds import generation_speed, prefill_speed
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Verdict
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.prompt.client import client_of
from cacheproxy.metrics import table
from cacheproxy.metrics.labels import UNKNOWN, Labels
from cacheproxy.metrics.series import Series
from cacheproxy.metrics.table import Row
from cacheproxy.observe.body import body_of
from cacheproxy.totals.record import has_failed

_MOST_UPSTREAMS = 32
_MOST_ROUTES = 32
_MOST_CLIENTS = 24
_MOST_MODELS = 24
_MOST_RULES = 200
_VERDICTS = {
    Judgement.OK: "ok",
    Judgement.COLD: "cold",
    Judgement.COMPACTED: "compacted",
    Judgement.BREAK: "break",
    Judgement.UNKNOWN: UNKNOWN,
}


class Metrics:
    """Counts all there is to count of each exchange, in ``series``.

    How many label values there may be is bounded, those that clients choose (their names, models)
    and those of the configuration alike.
    """

    def __init__(self) -> None:
        self.series: list[Series] = []
        self._upstreams = Labels(_MOST_UPSTREAMS)
        self._clients = Labels(_MOST_CLIENTS)
        self._models = Labels(_MOST_MODELS)
        self._rules = Labels(_MOST_RULES)
        self._routes = Labels(_MOST_ROUTES)
        self._requests = self._begin(table.REQUESTS)
        self._prompt = self._begin(table.PROMPT_TOKENS)
        self._generated = self._begin(table.GENERATED_TOKENS)
        self._model = self._begin(table.MODEL_TOKENS)
        self._timed_tokens = self._begin(table.TIMED_TOKENS)
        self._timed_seconds = self._begin(table.TIMED_SECONDS)
        self._turns = self._begin(table.TURNS)
        self._breaks = self._begin(table.BREAKS)
        self._lost = self._begin(table.LOST_TOKENS)
        self._rule_tokens = self._begin(table.RULE_TOKENS)
        self._rule_seconds = self._begin(table.RULE_SECONDS)
        self._hits = self._begin(table.RULE_HITS)
        self._edits = self._begin(table.RULE_EDITS)
        self._route_requests = self._begin(table.ROUTE_REQUESTS)
        self._route_tokens = self._begin(table.ROUTE_TOKENS)
        self._route_price = self._begin(table.ROUTE_PRICE)
        self._moved = self._begin(table.MOVED)
        self._first_byte = self._begin(table.FIRST_BYTE)
        self._duration = self._begin(table.DURATION)
        self._edit = self._begin(table.EDIT)
        self._added = self._begin(table.ADDED)

    def _begin(self, row: Row) -> Series:
        self.series.append(made := Series(row))
        return made

    def snapshot(self, rules: Iterable[str]) -> list[Series]:
        """Return what has been counted by now; ``rules`` that have not fired are there with 0."""
        for rule in rules:
            name = self._rules.of(rule)
            self._hits[name,] += 0
            self._edits[name,] += 0
        return [each.copied() for each in self.series]

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange: Exchange) -> None:
        """Count the exchange."""
        session, status = exchange.session, exchange.status
        upstream = self._upstreams.of(exchange.upstream)
        client = session.client if session is not None else client_of(exchange.received)
        client = self._clients.of(client, _carried(exchange))
        outcome = exchange.outcome.replace(" ", "_")
        status_class = "none" if status is None else f"{status // 100}xx"
        self._requests[upstream, client, outcome, status_class] += 1
        self._count_times(exchange, upstream)
        if exchange.server:
            self._count_route(exchange, upstream)
        if exchange.turn:
            self._count_tokens(exchange, upstream, client)
        if exchange.verdict is not None and not has_failed(exchange.outcome, status):
            self._count_verdict(exchange, exchange.verdict, upstream, client)
        for report in exchange.reports:
            if report.edits:
                rule = self._rules.of(report.rule)
                self._hits[rule,] += 1
                self._edits[rule,] += len(report.edits)

    def _count_route(self, exchange: Exchange, upstream: str) -> None:
        route, usage = self._routes.of(exchange.route or "none"), exchange.usage
        self._route_requests[upstream, route] += 1
        if exchange.has_moved:
            self._moved[upstream,] += 1
        if exchange.price is not None:
            self._route_price[upstream, route] += exchange.price
        for tokens, source in _sources(usage):
            self._route_tokens[upstream, route, source] += tokens

    def _count_times(self, exchange: Exchange, upstream: str) -> None:
        request = "other" if not exchange.turn else "side" if exchange.side else "turn"
        for histogram, values, seconds in (
            (self._duration, (upstream, request), exchange.seconds),
            (self._first_byte, (upstream, request), exchange.first_byte),
            (self._edit, (upstream,), exchange.edited_after if exchange.received.body else None),
            (self._added, (upstream,), exchange.sent_after),
        ):
            if seconds is not None:
                histogram.observe(values, seconds)

    def _count_tokens(self, exchange: Exchange, upstream: str, client: str) -> None:
        model = body_of(exchange.sent or exchange.received).get("model")
        if not isinstance(model, str) or not model:
            model = UNKNOWN
        model = self._models.of(model, _carried(exchange))
        usage = exchange.usage
        evaluated, output = usage.evaluated, usage.output
        for tokens, source in _sources(usage):
            self._model[upstream, model, source] += tokens
            if source == "generated":
                self._generated[upstream, client] += tokens
            else:
                self._prompt[upstream, client, source] += tokens
        if prefill_speed(usage) is not None:
            self._timed_tokens[upstream, "prompt"] += evaluated or 0
            self._timed_seconds[upstream, "prompt"] += usage.prompt_seconds or 0
        if generation_speed(usage) is not None:
            self._timed_tokens[upstream, "output"] += output or 0
            self._timed_seconds[upstream, "output"] += usage.output_seconds or 0

    def _count_verdict(
        self, exchange: Exchange, verdict: Verdict, upstream: str, client: str
    ) -> None:
        spared = exchange.spared
        if spared is not None and spared.tokens:
            effect = "spared" if spared.tokens > 0 else "added"
            self._rule_tokens[upstream, effect] += abs(spared.tokens)
            if spared.seconds is not None:
                self._rule_seconds[upstream, effect] += abs(spared.seconds)
        if exchange.side:  # what comes beside a conversation is expected to differ from it
            return
        self._turns[upstream, client, _VERDICTS[verdict.judgement]] += 1
        if verdict.reason is not None:
            reason = str(verdict.reason)
            self._breaks[upstream, client, reason] += 1
            if verdict.lost is not None:
                self._lost[upstream, reason] += verdict.lost.tokens


def _sources(usage: Usage) -> Iterator[tuple[int, str]]:
    """Yield the tokens of an exchange, and where they come from."""
    if usage.evaluated is not None and usage.reused is not None:
        yield usage.reused, "reused"
        yield usage.evaluated, "evaluated"
    elif usage.prompt is not None:
        yield usage.prompt, UNKNOWN
    if usage.output is not None:
        yield usage.output, "generated"


def _carried(exchange: Exchange) -> partial[frozenset[bytes]]:
    """What returns the credentials that the request came with."""
    return partial(carried, exchange.received.headers, exchange.received.target)
