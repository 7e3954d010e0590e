"""The prompts that are being evaluated now, if their servers report them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.server.prefill import Prefill

_log = Logger()
_LONG = 5.0
"""Seconds after which a prefill is told of in the log."""
_AGAIN = 60.0
"""Seconds after which it is told of again."""
_MOST = 256


class Prefills:
    """Knows them by the numbers of their exchanges; the log has a line of each that is long.

    ``changed`` is called whenever there is something new for whom it is shown to.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self._running: dict[int, Prefill] = {}
        self._next: dict[int, float] = {}

    def __call__(self, exchange: int, prefill: Prefill | None) -> None:
        """Take what is known of ``exchange``; None: its prompt is evaluated, or given up."""
        if prefill is None:
            self._running.pop(exchange, None)
            self._next.pop(exchange, None)
        elif exchange in self._running or len(self._running) < _MOST:
            self._running[exchange] = prefill
            if prefill.seconds >= self._next.get(exchange, _LONG):
                self._next[exchange] = prefill.seconds + _AGAIN
                _log.info("{text}", text=hide_text(line(prefill)))
        self.changed()

    def as_json(self) -> list[dict[str, Any]]:
        """Return those that run, the longest first."""
        running = sorted(self._running.values(), key=lambda each: -each.seconds)
        return [
            {
                "session": hide_text(each.session),
                "conversation": hide_text(each.conversation),
                "turn": each.turn,
                "done": each.progress.done,
                "total": each.progress.total,
                "seconds": each.seconds,
            }
            for each in running
        ]


def line(prefill: Prefill) -> str:
    """Return the line for the log."""
    done, total = prefill.progress.done, prefill.progress.total
    return (
        f"{time.strftime('%H:%M:%S')} {prefill.session:<12} #{prefill.turn:<3}  "
        f"prefill {done:,} of {total:,} tokens ({done / total:.0%}) after {prefill.seconds:.0f}s"
    )
