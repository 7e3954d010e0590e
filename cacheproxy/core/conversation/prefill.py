"""What evaluating prompts costs at one server: a token takes longer the deeper it stands.

Attention looks at all tokens before, so that a token takes about ``base + slope * depth`` seconds.
Both are fitted to what was evaluated lately (least squares, errors weighed by the time taken), and
neither is ever below 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from cacheproxy.core.conversation.speeds import LEAST_EVALUATED

_RECENT = 32
"""Evaluations that are remembered: a machine may get another graphics card."""
_SPREAD = 1e-3
"""Squared relative spread of depths from which they tell a slope."""
_ODD = 3.0
"""Times the fitted time, or a part of it: from here on the machine was doing something else."""

_LEAST_SECONDS = 1e-6


class _Shown(NamedTuple):
    """One evaluation."""

    depth: float  #: that of its middle, in tokens
    tokens: float  #: that were evaluated
    seconds: float  #: that it took


class PrefillCost:
    """What the tokens of prompts took lately at one server, by their depth."""

    def __init__(self) -> None:
        self._shown: deque[_Shown] = deque(maxlen=_RECENT)
        self._base = self._slope = self._deepest = 0.0

    def learn(self, start: float, tokens: float | None, seconds: float | None) -> None:
        """Take note that ``tokens`` from the depth ``start`` on took ``seconds``.

        Few tokens are not taken note of: they take a server about as long as one. Nor is a time
        that no server measures, whose squares are beyond what a float holds.
        """
        if tokens is None or seconds is None:
            return
        if tokens < LEAST_EVALUATED or seconds < _LEAST_SECONDS:
            return
        self._shown.append(_Shown(start + tokens / 2, tokens, seconds))
        self._base, self._slope = _fit(self._shown)
        usual = [one for one in self._shown if 1 / _ODD < one.seconds / self._took(one) < _ODD]
        self._base, self._slope = _fit(usual or self._shown)
        self._deepest = max(one.depth + one.tokens / 2 for one in self._shown)

    def seconds(self, start: float, end: float) -> float | None:
        """Return what the tokens between two depths take; below 0 if ``end`` is before ``start``.

        Beyond the deepest token that was seen, none is taken to cost more. None: nothing was seen.
        """
        if not self._shown:
            return None
        depth = min((start + end) / 2, self._deepest)
        return (end - start) * (self._base + self._slope * depth)

    def _took(self, one: _Shown) -> float:
        return one.tokens * (self._base + self._slope * one.depth)


def _fit(shown: Sequence[_Shown] | deque[_Shown]) -> tuple[float, float]:
    """Return the seconds of a token at depth 0, and what each token before it adds."""
    # of time = base * tokens + slope * work, where work = tokens * depth
    n = w = nn = nw = ww = 0.0
    for depth, tokens, seconds in shown:
        work = tokens * depth
        n, w = n + tokens, w + work
        nn, nw, ww = nn + tokens**2 / seconds, nw + tokens * work / seconds, ww + work**2 / seconds
    spread = nn * ww - nw**2
    if spread <= _SPREAD * nn * ww or w * nn <= n * nw:
        return n / nn, 0.0
    if n * ww <= w * nw:
        return 0.0, w / ww
    return (n * ww - w * nw) / spread, (w * nn - n * nw) / spread
