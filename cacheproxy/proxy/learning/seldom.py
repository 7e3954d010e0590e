"""A trouble that comes with every turn is said once, then only now and then."""

from __future__ import annotations

import math
from typing import Any

_SECONDS = 3600.0


class Seldom:
    """Has each reason said once, and after that at most once an hour, with how often it came."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._seen: dict[str, tuple[float, int]] = {}

    def reason(self, error: Exception) -> str | None:
        """Return why, to be said now; None: it was said, and is counted."""
        kind = type(error).__name__
        why = "it took too long" if kind == "TimeoutError" else kind
        now = self._reactor.seconds()
        at, times = self._seen.get(why, (-math.inf, 0))
        if now - at < _SECONDS:
            self._seen[why] = at, times + 1
            return None
        self._seen[why] = now, 0
        return f"{why} ({times:,} times more since this was said)" if times else why
