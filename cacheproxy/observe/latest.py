"""Each upstream's latest status, and the requests that run with how far their prompts are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from twisted.logger import Logger

from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.servers.prefill import Progress
from cacheproxy.core.servers.status import Look
from cacheproxy.record.exchange import Exchange

_log = Logger()
_LONG = 5.0
"""Seconds after which a prefill is told of in the log."""
_AGAIN = 60.0
"""Seconds after which it is told of again."""
_MOST = 256
"""Requests that are shown."""


class Prefills:
    """Knows the exchanges under way; the log has a line of each that is long.

    ``changed`` is called whenever there is something new for whom it is shown to.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self._running: dict[int, tuple[Exchange, Progress | None]] = {}
        self._next: dict[int, float] = {}

    def __call__(
        self, exchange: Exchange, progress: Progress | None, seconds: float | None
    ) -> None:
        """Take what is known of ``exchange`` after so many ``seconds``; None: it is over.

        ``progress``: None where the server does not say, or reads the prompt no more.
        """
        key = id(exchange)
        if seconds is None:
            self._running.pop(key, None)
            self._next.pop(key, None)
        else:
            self._running[key] = exchange, progress
            if progress is not None and seconds >= self._next.get(key, _LONG):
                self._next[key] = seconds + _AGAIN
                _log.info("{text}", text=hide_text(line(exchange, progress, seconds)))
        self.changed()

    def as_json(self, now: float) -> list[dict[str, Any]]:
        """Return those that run, the longest first; ``now``: seconds since the epoch."""
        running = sorted(self._running.values(), key=lambda each: each[0].wall)[:_MOST]
        return [
            {
                "session": hide_text(session.label),
                "conversation": hide_text(session.name),
                "turn": exchange.turn,
                "done": progress and progress.done,
                "total": progress and progress.total,
                "seconds": max(0.0, now - exchange.wall),
            }
            for exchange, progress in running
            if (session := exchange.session) is not None
        ]


def line(exchange: Exchange, progress: Progress, seconds: float) -> str:
    """Return the line for the log."""
    done, total = progress.done, progress.total
    label = exchange.session.label if exchange.session is not None else "-"
    return (
        f"{time.strftime('%H:%M:%S')} {label:<12} #{exchange.turn:<3}  "
        f"prefill {done:,} of {total:,} tokens ({done / total:.0%}) after {seconds:.0f}s"
    )


@dataclass(slots=True)
class Latest:
    """The looks taken last and what runs now, for pages that show it."""

    looks: dict[str, Look] = field(default_factory=dict)  #: by the upstreams' URLs
    prefills: Prefills = field(default_factory=Prefills)  #: prompts that are being read

    def keep(self, urls: Collection[str]) -> None:
        """Forget what was seen of other upstreams than those at ``urls``."""
        self.looks = {url: look for url, look in self.looks.items() if url in urls}
