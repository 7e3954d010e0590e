"""The observer that counts every finished exchange: figures and names, nothing of its content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from cacheproxy import hookimpl, quick
from cacheproxy.core.conversation.speeds import generation_speed, prefill_speed
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Verdict
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.prompt.client import client_of
from cacheproxy.metrics import table
from cacheproxy.metrics.series import UNKNOWN, Labels, Series
from cacheproxy.record.body import body_of
from cacheproxy.record.exchange import Exchange

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
        self.series = {row: Series(row) for row in table.COUNTED}
        self._upstreams = Labels(_MOST_UPSTREAMS)
        self._clients = Labels(_MOST_CLIENTS)
        self._models = Labels(_MOST_MODELS)
        self._rules = Labels(_MOST_RULES)
        self._routes = Labels(_MOST_ROUTES)

    def snapshot(self, rules: Iterable[str]) -> list[Series]:
        """Return what has been counted by now; ``rules`` that have not fired are there with 0."""
        for rule in rules:
            name = self._rules.of(rule)
            self.series[table.RULE_HITS][name,] += 0
            self.series[table.RULE_EDITS][name,] += 0
        return [each.copied() for each in self.series.values()]

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Count them."""
        for exchange in exchanges:
            self._count(exchange)

    def _count(self, exchange: Exchange) -> None:
        session, status = exchange.session, exchange.status
        upstream = self._upstreams.of(exchange.upstream)
        client = session.client if session is not None else client_of(exchange.received)
        client = self._clients.of(client, _carried(exchange))
        outcome = (exchange.outcome or UNKNOWN).replace(" ", "_")
        status_class = "none" if status is None else f"{status // 100}xx"
        self.series[table.REQUESTS][upstream, client, outcome, status_class] += 1
        self._count_times(exchange, upstream)
        if exchange.server:
            self._count_route(exchange, upstream)
        if exchange.turn:
            self._count_tokens(exchange, upstream, client)
        if exchange.verdict is not None and not exchange.went_wrong:
            self._count_verdict(exchange, exchange.verdict, upstream, client)
        for report in exchange.reports:
            if report.edits:
                rule = self._rules.of(report.rule)
                self.series[table.RULE_HITS][rule,] += 1
                self.series[table.RULE_EDITS][rule,] += len(report.edits)

    def _count_route(self, exchange: Exchange, upstream: str) -> None:
        route, usage = self._routes.of(exchange.route or "none"), exchange.usage
        self.series[table.ROUTE_REQUESTS][upstream, route] += 1
        if exchange.has_moved:
            self.series[table.MOVED][upstream,] += 1
        if exchange.price is not None:
            self.series[table.ROUTE_PRICE][upstream, route] += exchange.price
        for tokens, source in _sources(usage):
            self.series[table.ROUTE_TOKENS][upstream, route, source] += tokens

    def _count_times(self, exchange: Exchange, upstream: str) -> None:
        request = "other" if not exchange.turn else "side" if exchange.side else "turn"
        for row, values, seconds in (
            (table.DURATION, (upstream, request), exchange.seconds),
            (table.FIRST_BYTE, (upstream, request), exchange.first_byte),
            (table.EDIT, (upstream,), exchange.edited_after if exchange.received.body else None),
            (table.ADDED, (upstream,), exchange.sent_after),
        ):
            if seconds is not None:
                self.series[row].observe(values, seconds)

    def _count_tokens(self, exchange: Exchange, upstream: str, client: str) -> None:
        model = body_of(exchange.sent or exchange.received).get("model")
        if not isinstance(model, str) or not model:
            model = UNKNOWN
        model = self._models.of(model, _carried(exchange))
        usage = exchange.usage
        evaluated, output = usage.evaluated, usage.output
        for tokens, source in _sources(usage):
            self.series[table.MODEL_TOKENS][upstream, model, source] += tokens
            if source == "generated":
                self.series[table.GENERATED_TOKENS][upstream, client] += tokens
            else:
                self.series[table.PROMPT_TOKENS][upstream, client, source] += tokens
        if prefill_speed(usage) is not None:
            self.series[table.TIMED_TOKENS][upstream, "prompt"] += evaluated or 0
            self.series[table.TIMED_SECONDS][upstream, "prompt"] += usage.prompt_seconds or 0
        if generation_speed(usage) is not None:
            self.series[table.TIMED_TOKENS][upstream, "output"] += output or 0
            self.series[table.TIMED_SECONDS][upstream, "output"] += usage.output_seconds or 0

    def _count_verdict(
        self, exchange: Exchange, verdict: Verdict, upstream: str, client: str
    ) -> None:
        spared = exchange.spared
        if spared is not None and spared.tokens:
            effect = "spared" if spared.tokens > 0 else "added"
            self.series[table.RULE_TOKENS][upstream, effect] += abs(spared.tokens)
            if spared.seconds is not None:
                self.series[table.RULE_SECONDS][upstream, effect] += abs(spared.seconds)
        if exchange.side:  # what comes beside a conversation is expected to differ from it
            return
        self.series[table.TURNS][upstream, client, _VERDICTS[verdict.judgement]] += 1
        if verdict.reason is not None:
            reason = str(verdict.reason)
            self.series[table.BREAKS][upstream, client, reason] += 1
            if verdict.lost is not None:
                self.series[table.LOST_TOKENS][upstream, reason] += verdict.lost.tokens


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
