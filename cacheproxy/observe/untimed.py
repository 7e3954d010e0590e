"""Evaluations whose answers told no times, until the server's counters tell their sum.

llama-server tells none to ``/v1/messages``; its counters hold a prompt as soon as it is evaluated,
long before its answer ends.
"""

from __future__ import annotations

from cacheproxy.core.conversation.prefill import PrefillCost

_MOST = 64
_SAME = 0.01
"""The part by which counters and answers may differ and still tell of the same tokens."""


class Untimed:
    """Pairs what answers told of one server with what its counters gained."""

    def __init__(self) -> None:
        self._answers: list[tuple[PrefillCost, float, int]] = []
        self._tokens = self._seconds = 0.0

    def answered(self, cost: PrefillCost, start: float, tokens: int) -> None:
        """Take note of an answer that told no time for ``tokens`` from the depth ``start`` on."""
        if len(self._answers) < _MOST:
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
