"""The observer that counts every finished exchange: figures and names, nothing of its content."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial

from cacheproxy import hookimpl
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.speeds import generation_speed, prefill_speed
from cacheproxy.core.conversation.verdict import Judgement, Verdict
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.prompt.client import client_of
from cacheproxy.metrics import table
from cacheproxy.metrics.counted import Counted
from cacheproxy.metrics.labels import UNKNOWN, Labels
from cacheproxy.observe.body import body_of
from cacheproxy.totals.record import has_failed

_MOST_UPSTREAMS = 4
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
    """Counts all there is to count of each exchange; ``counted`` shows it.

    How many label values there may be is bounded, those that clients choose (their names, models)
    and those of the configuration alike. Every request waits for this: a call for each of its
    figures would cost more than all else here.
    """

    def __init__(self) -> None:
        self.counted = Counted()
        self._upstreams = Labels(_MOST_UPSTREAMS)
        self._clients = Labels(_MOST_CLIENTS)
        self._models = Labels(_MOST_MODELS)
        self._rules = Labels(_MOST_RULES)
        counter, histogram = self.counted.counter, self.counted.histogram
        self._requests = counter(table.REQUESTS)
        self._prompt = counter(table.PROMPT_TOKENS)
        self._generated = counter(table.GENERATED_TOKENS)
        self._model = counter(table.MODEL_TOKENS)
        self._timed_tokens = counter(table.TIMED_TOKENS)
        self._timed_seconds = counter(table.TIMED_SECONDS)
        self._turns = counter(table.TURNS)
        self._breaks = counter(table.BREAKS)
        self._lost = counter(table.LOST_TOKENS)
        self._rule_tokens = counter(table.RULE_TOKENS)
        self._rule_seconds = counter(table.RULE_SECONDS)
        self._hits = counter(table.RULE_HITS)
        self._edits = counter(table.RULE_EDITS)
        self._first_byte = histogram(table.FIRST_BYTE)
        self._duration = histogram(table.DURATION)
        self._edit = histogram(table.EDIT)
        self._added = histogram(table.ADDED)

    def expect(self, rule: str) -> None:
        """Show ``rule`` as one that has not fired, until it does."""
        name = self._rules.of(rule)
        self._hits[name,] += 0
        self._edits[name,] += 0

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange: Exchange) -> None:
        """Count the exchange."""
        session, status = exchange.session, exchange.status
        upstream = exchange.upstream
        upstream = self._upstreams.known.get(upstream) or self._upstreams.of(upstream)
        client = session.client if session is not None else client_of(exchange.received)
        client = self._clients.known.get(client) or self._clients.of(client, _carried(exchange))
        outcome = exchange.outcome.replace(" ", "_")
        status_class = "none" if status is None else f"{status // 100}xx"
        self._requests[upstream, client, outcome, status_class] += 1
        self._count_times(exchange, upstream)
        if exchange.turn:
            self._count_tokens(exchange, upstream, client)
        if exchange.verdict is not None and not has_failed(exchange.outcome, status):
            self._count_verdict(exchange, exchange.verdict, upstream, client)
        for report in exchange.reports:
            if report.edits:
                rule = self._rules.known.get(report.rule) or self._rules.of(report.rule)
                self._hits[rule,] += 1
                self._edits[rule,] += len(report.edits)

    def _count_times(self, exchange: Exchange, upstream: str) -> None:
        request = "other" if not exchange.turn else "side" if exchange.side else "turn"
        for histogram, values, seconds in (
            (self._duration, (upstream, request), exchange.seconds),
            (self._first_byte, (upstream, request), exchange.first_byte),
            (self._edit, (upstream,), exchange.edited_after if exchange.received.body else None),
            (self._added, (upstream,), exchange.sent_after),
        ):
            if seconds is not None:
                buckets = histogram[values]
                buckets.counts[bisect_left(histogram.bounds, seconds)] += 1
                buckets.sum += seconds

    def _count_tokens(self, exchange: Exchange, upstream: str, client: str) -> None:
        model = body_of(exchange.sent or exchange.received).get("model")
        if not isinstance(model, str) or not model:
            model = UNKNOWN
        model = self._models.known.get(model) or self._models.of(model, _carried(exchange))
        usage = exchange.usage
        reused, evaluated, output = usage.reused, usage.evaluated, usage.output
        if evaluated is not None and reused is not None:
            self._prompt[upstream, client, "reused"] += reused
            self._prompt[upstream, client, "evaluated"] += evaluated
            self._model[upstream, model, "reused"] += reused
            self._model[upstream, model, "evaluated"] += evaluated
        elif usage.prompt is not None:
            self._prompt[upstream, client, UNKNOWN] += usage.prompt
            self._model[upstream, model, UNKNOWN] += usage.prompt
        if output is not None:
            self._generated[upstream, client] += output
            self._model[upstream, model, "generated"] += output
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


def _carried(exchange: Exchange) -> partial[frozenset[bytes]]:
    """What returns the credentials that the request came with."""
    return partial(carried, exchange.received.headers, exchange.received.target)
