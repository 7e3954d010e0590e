"""Computes each turn's saved or lost time once, when it ends: all pages sum the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from cacheproxy.core.conversation.speeds import LEAST_EVALUATED, PrefillCost, PrefillSpeed
from cacheproxy.core.conversation.usage import NOTHING, Usage
from cacheproxy.core.conversation.verdict import Judgement, Spared, spared_tokens
from cacheproxy.core.kinds.status import Look, gain
from cacheproxy.core.route.route import Price
from cacheproxy.record.exchange import Exchange, body_of

_MOST_UPSTREAMS = 16
_MOST_MODELS = 16
_LONGEST_NAME = 120
"""Characters of a model's name at most: a client chose it."""
_MOST_ANSWERS = 64
_SAME = 0.01
"""Share by which counters and answers may differ and still count the same tokens."""


class Untimed:
    """Evaluations without times in their answers, until the server's counters show their sum.

    llama-server sends no times on ``/v1/messages``; its counters have a prompt as soon as it is
    evaluated, long before its answer ends.
    """

    def __init__(self) -> None:
        self._answers: list[tuple[PrefillCost, float, int]] = []
        self._tokens = self._seconds = 0.0

    def answered(self, cost: PrefillCost, start: float, tokens: int) -> None:
        """Record an answer without a time, for ``tokens`` from the depth ``start`` on."""
        if len(self._answers) < _MOST_ANSWERS:
            self._answers.append((cost, start, tokens))

    def counted(self, tokens: float, seconds: float, *, idle: bool) -> None:
        """Record a gain of the counters; once it equals the answers' tokens, let their cost learn.

        Begin anew then, and where the two can no longer become equal: more was answered than
        counted, or the server is ``idle`` and has counted more, which were others' requests.
        """
        self._tokens += tokens
        self._seconds += seconds
        reported = sum(reported for _, _, reported in self._answers)
        if abs(reported - self._tokens) <= _SAME * reported:
            costs = {id(cost): cost for cost, _, _ in self._answers}
            if len(costs) == 1:  # as one evaluation, at the depth where most of it was
                depth = sum(n * (start + n / 2) for _, start, n in self._answers) / reported
                (cost,) = costs.values()
                cost.learn(depth - reported / 2, reported, self._seconds)
        elif reported < self._tokens and not idle:
            return
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._answers.clear()
        self._tokens = self._seconds = 0.0


class _Upstream:
    """An upstream's speeds, and the cost of prompts there for each model.

    ``prefill``: by the server's own times; ``seen``: by its clients' waits for first tokens.
    ``look``: the last one with counters; ``has_reported``: whether answers reported a speed since.
    """

    def __init__(self) -> None:
        self.prefill, self.seen = PrefillSpeed(), PrefillSpeed()
        self.untimed = Untimed()
        self.look: Look | None = None
        self.has_reported = False
        self._costs: dict[str, PrefillCost] = {}

    def cost(self, model: str) -> PrefillCost:
        found = self._costs.get(model)
        if found is None:
            if len(self._costs) >= _MOST_MODELS:
                self._costs.clear()
            found = self._costs[model] = PrefillCost()
        return found

    def seconds(self, cost: PrefillCost, start: float, tokens: int) -> float | None:
        """Return the seconds for ``tokens`` from ``start`` on, rounded as the totals store them."""
        found, speed = cost.seconds(start, start + tokens), self.prefill.speed
        if found is None:
            found = tokens / speed if speed else None
        return None if found is None else round(found, 3)

    def spared(self, cost: PrefillCost, usage: Usage, tokens: int) -> Spared:
        """Return ``tokens`` with their seconds: the turn's cost without us, less the time it took.

        If the answer has no time: the cost of the tokens by themselves.
        """
        start, took = (usage.reused or 0) - tokens, usage.prompt_seconds
        without = None
        if took is not None and usage.prompt is not None:
            without = cost.seconds(start, usage.prompt)
        if without is None or took is None:
            return Spared(tokens, self.seconds(cost, start, tokens))
        seconds = max(0.0, without - took) if tokens > 0 else min(0.0, without - took)
        return Spared(tokens, round(seconds, 3))


class Pricing:
    """Adds to judged exchanges the time that they spared or lost, and delivers them.

    The price of tokens is what the upstream and model lately took for tokens at that depth of a
    prompt, this exchange included. Where answers have no times (llama-server's on
    ``/v1/messages``), its counters are used. Where these include others' requests, the speed that
    they show is used, which gives rather too few seconds, since prefill slows down while the
    context grows.

    ``prices``: the upstreams' charges, by their names, replaced when the configuration is.
    """

    def __init__(self, deliver: Callable[[Sequence[Exchange]], None]) -> None:
        self.prices: Mapping[str, Price] = {}
        self._deliver = deliver
        self._upstreams: dict[str, _Upstream] = {}

    def __call__(self, exchanges: Sequence[Exchange]) -> None:
        """Price ``exchanges``, and deliver them, complete and frozen."""
        for exchange in exchanges:
            if exchange.usage is not NOTHING or exchange.verdict is not None:
                self._price(exchange)
            exchange.finish()
        self._deliver(exchanges)

    def _price(self, exchange: Exchange) -> None:
        usage, verdict = exchange.usage, exchange.verdict
        known = self._upstreams.get(exchange.upstream) or self._of(exchange.upstream)
        cost = known.cost((exchange.model or "")[:_LONGEST_NAME])
        reused, evaluated, seconds = usage.reused or 0, usage.evaluated, usage.prompt_seconds
        if seconds is not None:
            cost.learn(reused, evaluated, seconds)
            own = known.prefill.learn(evaluated, seconds)
            known.has_reported = known.has_reported or own is not None
        elif evaluated:
            known.untimed.answered(cost, reused, evaluated)
            if evaluated >= LEAST_EVALUATED and exchange.first_byte is not None:
                self._see(known.seen, exchange, evaluated)
        if (
            verdict is not None
            and verdict.judgement in (Judgement.BREAK, Judgement.CUT)
            and verdict.lost is not None
            and verdict.seconds_lost is None  # its answer has no times
        ):
            lost = known.seconds(cost, reused, verdict.lost.tokens)
            verdict = exchange.verdict = replace(verdict, seconds_lost=lost)
        tokens = spared_tokens(usage.reused, verdict)
        if tokens and not exchange.has_failed:
            exchange.spared = known.spared(cost, usage, tokens)
        price = self.prices.get(exchange.server)
        if price is not None and exchange.turn and usage.prompt is not None:
            exchange.price = price.of(usage.prompt, reused, usage.output or 0)

    @staticmethod
    def _see(seen: PrefillSpeed, exchange: Exchange, evaluated: int) -> None:
        """Learn the prefill's speed from the first token; only a stream has one before the end."""
        first, sent = exchange.first_byte, exchange.sent_after
        if first is not None and sent is not None and body_of(exchange.received).get("stream"):
            seen.learn(evaluated, first - sent)

    def speed(self, url: str) -> float | None:
        """Return the tokens a second that ``url`` evaluated lately, None if unknown."""
        known = self._upstreams.get(url)
        return None if known is None else known.prefill.speed

    def pace(self, url: str) -> float | None:
        """Return the tokens a second that ``url`` evaluates, None if unknown.

        Without the server's own times: tokens evaluated until the first token came.
        """
        known = self._upstreams.get(url)
        return None if known is None else known.prefill.speed or known.seen.speed

    def looked(self, look: Look) -> None:
        """Learn the speed from the upstream's counters, unless answers have reported it."""
        if look.figures is None:
            return
        known = self._of(look.url)
        gained, has_begun = gain(known.look, look)
        evaluated, prefill = gained.evaluated, gained.prefill
        if not known.has_reported:
            known.prefill.learn(evaluated, prefill)
        if has_begun or known.has_reported:
            known.untimed.forget()
        elif evaluated is not None and prefill is not None:
            idle = look.sample is not None and look.sample.running == 0
            known.untimed.counted(evaluated, prefill, idle=idle)
        known.look, known.has_reported = look, False

    def _of(self, url: str) -> _Upstream:
        known = self._upstreams.get(url)
        if known is None:
            if len(self._upstreams) >= _MOST_UPSTREAMS:
                self._upstreams.clear()
            known = self._upstreams[url] = _Upstream()
        return known
