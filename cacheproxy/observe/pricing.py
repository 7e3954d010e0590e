"""Computes the time each turn saved or lost once, when it ends: all pages sum the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from cacheproxy.core.conversation.speeds import (
    LEAST_EVALUATED,
    PrefillCost,
    PrefillSpeed,
    generation_speed,
)
from cacheproxy.core.conversation.usage import NOTHING, Usage
from cacheproxy.core.conversation.verdict import Judgement, Spared, spared_tokens
from cacheproxy.core.kinds.status import Look, gain
from cacheproxy.core.route.route import Price
from cacheproxy.record.exchange import Exchange, body_of

_MOST_UPSTREAMS = 16
_MOST_MODELS = 16
_LONGEST_NAME = 120
"""Characters of a model's name: a client chose it."""
_MOST_ANSWERS = 64
_SAME = 0.01
"""The part by which counters and answers may differ and still tell of the same tokens."""


class Untimed:
    """Evaluations whose answers told no times, until the server's counters tell their sum.

    llama-server tells none to ``/v1/messages``; its counters hold a prompt as soon as it is
    evaluated, long before its answer ends.
    """

    def __init__(self) -> None:
        self._answers: list[tuple[PrefillCost, float, int]] = []
        self._tokens = self._seconds = 0.0

    def answered(self, cost: PrefillCost, start: float, tokens: int) -> None:
        """Take note of an answer that told no time for ``tokens`` from the depth ``start`` on."""
        if len(self._answers) < _MOST_ANSWERS:
            self._answers.append((cost, start, tokens))

    def counted(self, tokens: float, seconds: float, *, idle: bool) -> None:
        """Take note of a gain; teach their cost what the answers are, if that is all of it.

        Begin anew where it is, and where it cannot become so: more was answered than counted, or
        the server is ``idle`` and has counted more, which were others' requests.
        """
        self._tokens += tokens
        self._seconds += seconds
        told = sum(told for _, _, told in self._answers)
        if abs(told - self._tokens) <= _SAME * told:
            self._teach(told)
        elif told < self._tokens and not idle:
            return
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._answers.clear()
        self._tokens = self._seconds = 0.0

    def _teach(self, told: int) -> None:
        costs = {id(cost): cost for cost, _, _ in self._answers}
        if len(costs) == 1:  # as one evaluation, at the depth where most of it was
            depth = sum(n * (start + n / 2) for _, start, n in self._answers) / told
            (cost,) = costs.values()
            cost.learn(depth - told / 2, told, self._seconds)


class _Upstream:
    """What is known of one: its speeds, what prompts cost there by the models that were asked for.

    ``prefill``: as it measures it; ``seen``: as its clients waited for first tokens.
    ``look``: the last that told its counters; ``has_told``: whether answers told a speed since.
    """

    def __init__(self) -> None:
        self.prefill, self.seen = PrefillSpeed(), PrefillSpeed()
        self.generation: float | None = None
        self.untimed = Untimed()
        self.look: Look | None = None
        self.has_told = False
        self._costs: dict[str, PrefillCost] = {}

    def cost(self, model: str) -> PrefillCost:
        found = self._costs.get(model)
        if found is None:
            if len(self._costs) >= _MOST_MODELS:
                self._costs.clear()
            found = self._costs[model] = PrefillCost()
        return found

    def seconds(self, cost: PrefillCost, start: float, tokens: int) -> float | None:
        """Return what ``tokens`` from ``start`` on take, in the milliseconds that totals keep."""
        found, speed = cost.seconds(start, start + tokens), self.prefill.speed
        if found is None:
            found = tokens / speed if speed else None
        return None if found is None else round(found, 3)

    def spared(self, cost: PrefillCost, usage: Usage, tokens: int) -> Spared:
        """Return ``tokens`` with their seconds: those of the turn without us, less what it took.

        Where it told no time, what the tokens by themselves take.
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
    """Takes judged exchanges, gives them on with what they spared, and the time they lost.

    Priced by what its upstream and model lately took for tokens at that depth of a prompt, this
    exchange included. Where answers tell no times (llama-server's to ``/v1/messages``), its
    counters do. Where these hold others' requests, too: at the speed that they show, which is
    rather too few seconds, as prefill slows down while the context grows.

    ``prices``: what upstreams charge, by their names, set anew when the configuration is.
    """

    def __init__(self, deliver: Callable[[Sequence[Exchange]], None]) -> None:
        self.prices: Mapping[str, Price] = {}
        self._deliver = deliver
        self._upstreams: dict[str, _Upstream] = {}

    def __call__(self, exchanges: Sequence[Exchange]) -> None:
        """Price ``exchanges``, and deliver them: they are complete with that, and frozen."""
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
            known.has_told = known.has_told or own is not None
        elif evaluated:
            known.untimed.answered(cost, reused, evaluated)
            if evaluated >= LEAST_EVALUATED and exchange.first_byte is not None:
                self._see(known.seen, exchange, evaluated)
        if usage.output_seconds:
            known.generation = generation_speed(usage) or known.generation
        if (
            verdict is not None
            and verdict.judgement in (Judgement.BREAK, Judgement.CUT)
            and verdict.lost is not None
            and verdict.seconds_lost is None  # its answer told no times
        ):
            lost = known.seconds(cost, reused, verdict.lost.tokens)
            verdict = exchange.verdict = replace(verdict, seconds_lost=lost)
        tokens = spared_tokens(usage.reused, verdict) if verdict is not None else None
        if tokens and not exchange.has_failed:
            exchange.spared = known.spared(cost, usage, tokens)
        price = self.prices.get(exchange.server)
        if price is not None and exchange.turn and usage.prompt is not None:
            exchange.price = price.of(usage.prompt, reused, usage.output or 0)

    @staticmethod
    def _see(seen: PrefillSpeed, exchange: Exchange, evaluated: int) -> None:
        """Learn what a first token tells; that of an answer in one piece is its last."""
        first, sent = exchange.first_byte, exchange.sent_after
        if first is not None and sent is not None and body_of(exchange.received).get("stream"):
            seen.learn(evaluated, first - sent)

    def speed(self, url: str) -> float | None:
        """Return the tokens a second that ``url`` evaluated lately, None for not known."""
        known = self._upstreams.get(url)
        return None if known is None else known.prefill.speed

    def paces(self, url: str) -> tuple[float | None, float | None]:
        """Return the tokens a second that ``url`` evaluates and generates, None for not known.

        Where it measures no prefill: what was evaluated until a first token came.
        """
        known = self._upstreams.get(url)
        if known is None:
            return None, None
        return known.prefill.speed or known.seen.speed, known.generation

    def looked(self, look: Look) -> None:
        """Learn the speed that the upstream's counters tell, unless answers have told it."""
        if look.figures is None:
            return
        known = self._of(look.url)
        gained, has_begun = gain(known.look, look)
        evaluated, prefill = gained.evaluated, gained.prefill
        if not known.has_told:
            known.prefill.learn(evaluated, prefill)
        if has_begun or known.has_told:
            known.untimed.forget()
        elif evaluated is not None and prefill is not None:
            idle = look.sample is not None and look.sample.running == 0
            known.untimed.counted(evaluated, prefill, idle=idle)
        known.look, known.has_told = look, False

    def _of(self, url: str) -> _Upstream:
        known = self._upstreams.get(url)
        if known is None:
            if len(self._upstreams) >= _MOST_UPSTREAMS:
                self._upstreams.clear()
            known = self._upstreams[url] = _Upstream()
        return known
