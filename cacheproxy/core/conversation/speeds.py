"""The speeds of a server, from answers and counters that are long enough to measure.

A speed is a sum of tokens divided by their time, never a mean of speeds, so that short answers
weigh little. The shortest are left out: a server may report a microsecond for an answer of one
token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cacheproxy.core.conversation.usage import Usage

LEAST_OUTPUT = 8
"""Generated tokens at least: of seven intervals between them, none makes more than a seventh."""
LEAST_OUTPUT_MS = 10
"""Milliseconds of generation at least: the times are whole milliseconds, so 10 % exact then."""
LEAST_EVALUATED = 64
"""Evaluated tokens at least: fewer take a server about as long as one."""
_TELLING = 256
"""Evaluated tokens of a request at least, for its speed to price thousands of others."""
_RECENT, _RECENT_SHOWN = 15, 32
"""Number of last speeds, and of last evaluations, that count: hardware may be replaced."""
_SPREAD = 1e-3
"""Squared relative spread of depths from which a slope can be fitted."""
_ODD = 3.0
"""Factor above or below the fitted time from which a time counts as disturbed."""

_LEAST_SECONDS = 1e-6
_Shown = tuple[float, float, float]
"""An evaluation: the depth of its middle, its evaluated tokens, its seconds."""


def prefill_speed(usage: Usage) -> float | None:
    """Return the evaluated tokens a second, None if too little was measured."""
    tokens, seconds = usage.evaluated, usage.prompt_seconds
    return tokens / seconds if seconds and tokens and tokens >= LEAST_EVALUATED else None


def generation_speed(usage: Usage) -> float | None:
    """Return the generated tokens a second, None if too little was measured."""
    return generation_of(usage.output, usage.output_seconds)


def generation_of(tokens: float | None, seconds: float | None) -> float | None:
    """Return the speed of ``tokens`` generated in ``seconds``, None if too little was measured."""
    if tokens is None or seconds is None or tokens < LEAST_OUTPUT:
        return None
    return tokens / seconds if seconds * 1e3 >= LEAST_OUTPUT_MS else None


class PrefillSpeed:
    """The recent prefill speeds of one upstream.

    ``speed``: their median, weighted by tokens, in tokens a second; None before the first. A long
    prompt takes more time for each token than a short one, and long prompts are the costly ones.
    """

    def __init__(self) -> None:
        self.speed: float | None = None
        self._shown: deque[tuple[float, float]] = deque(maxlen=_RECENT)

    def learn(self, tokens: float | None, seconds: float | None) -> float | None:
        """Add an evaluation; return its speed, None if it is too short to count."""
        if tokens is None or not seconds or tokens < _TELLING:
            return None
        self._shown.append((tokens / seconds, tokens))
        left = sum(shown for _, shown in self._shown) / 2
        for speed, shown in sorted(self._shown):
            left -= shown
            if left <= 0:
                self.speed = speed
                break
        return tokens / seconds


class PrefillCost:
    """The recent time of prompt tokens at one server, as a line over their depth."""

    def __init__(self) -> None:
        self._shown: deque[_Shown] = deque(maxlen=_RECENT_SHOWN)
        self._base = self._slope = self._deepest = 0.0

    def learn(self, start: float, tokens: float | None, seconds: float | None) -> None:
        """Add an evaluation of ``tokens`` from the depth ``start`` on, which took ``seconds``.

        Too few tokens are ignored: they take a server about as long as one. So is a time below all
        that servers measure, for which the sums of squares would exceed a float.
        """
        if tokens is None or seconds is None:
            return
        if tokens < LEAST_EVALUATED or seconds < _LEAST_SECONDS:
            return
        self._shown.append((start + tokens / 2, tokens, seconds))
        base, slope = _fit(self._shown)
        usual = [
            (depth, tokens, seconds)
            for depth, tokens, seconds in self._shown
            if 1 / _ODD < seconds / (tokens * (base + slope * depth)) < _ODD
        ]
        self._base, self._slope = _fit(usual or self._shown)
        self._deepest = max(depth + tokens / 2 for depth, tokens, _ in self._shown)

    def seconds(self, start: float, end: float, *, grows: bool = False) -> float | None:
        """Return the time of the tokens between two depths; below 0 if ``end`` is before ``start``.

        Beyond the deepest token measured, the time of a token is taken as constant, unless it
        ``grows``. None if nothing was measured.
        """
        if not self._shown:
            return None
        depth = (start + end) / 2
        depth = depth if grows else min(depth, self._deepest)
        return (end - start) * (self._base + self._slope * depth)


def _fit(shown: Sequence[_Shown] | deque[_Shown]) -> tuple[float, float]:
    """Return the seconds of a token at depth 0, and the seconds that each token before it adds."""
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
