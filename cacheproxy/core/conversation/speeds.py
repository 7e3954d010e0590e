"""How fast a server is, from answers and counters that are long enough to tell.

A speed is a sum of tokens divided by the time they took, never a mean of speeds, so short answers
weigh little. The shortest are left out: a server may report a microsecond for an answer of one
token.
"""

from __future__ import annotations

from collections import deque

from cacheproxy.core.conversation.usage import Usage

LEAST_OUTPUT = 8
"""Generated tokens: of seven intervals between them, none makes more than a seventh."""
LEAST_OUTPUT_MS = 10
"""Milliseconds that they took: times are in whole milliseconds, so that is within 10 %."""
LEAST_EVALUATED = 64
"""Evaluated tokens: fewer take a server about as long as one."""
_TELLING = 256
"""Evaluated tokens from which one request's speed may price thousands of others."""
_RECENT = 15
"""Speeds that are remembered: a machine may get another graphics card."""


def prefill_speed(usage: Usage) -> float | None:
    """Return the evaluated tokens a second, None where that cannot be told."""
    return prefill_of(usage.evaluated, usage.prompt_seconds)


def generation_speed(usage: Usage) -> float | None:
    """Return the generated tokens a second, None where that cannot be told."""
    return generation_of(usage.output, usage.output_seconds)


def prefill_of(tokens: float | None, seconds: float | None) -> float | None:
    """Return the speed of ``tokens`` evaluated in ``seconds``."""
    return tokens / seconds if seconds and (tokens or 0) >= LEAST_EVALUATED and tokens else None


def generation_of(tokens: float | None, seconds: float | None) -> float | None:
    """Return the speed of ``tokens`` generated in ``seconds``."""
    if tokens is None or seconds is None or tokens < LEAST_OUTPUT:
        return None
    return tokens / seconds if seconds * 1e3 >= LEAST_OUTPUT_MS else None


class PrefillSpeed:
    """The speeds of prefill that one upstream showed lately.

    ``speed``: that at which half of the tokens were evaluated no slower, in tokens a second; None
    while there is none. A long prompt takes more time a token than a short one, and it is long
    prompts that matter.
    """

    def __init__(self) -> None:
        self.speed: float | None = None
        self._shown: deque[tuple[float, float]] = deque(maxlen=_RECENT)

    def learn(self, tokens: float | None, seconds: float | None) -> float | None:
        """Take note of what was evaluated; return its speed if it is enough to tell one."""
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
