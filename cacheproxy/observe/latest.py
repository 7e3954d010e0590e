"""Each upstream's latest status, and the requests that run with how far their prompts are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from twisted.logger import Logger

from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.servers.prefill import Progress, RunningPrefill
from cacheproxy.core.servers.status import Look

_log = Logger()
_LONG = 5.0
"""Seconds after which a prefill is told of in the log."""
_AGAIN = 60.0
"""Seconds after which it is told of again."""
_MOST = 256
"""Requests that are shown."""


class Prefills:
    """Knows them by the numbers of their exchanges; the log has a line of each that is long.

    ``changed`` is called whenever there is something new for whom it is shown to.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self._running: dict[int, RunningPrefill] = {}
        self._next: dict[int, float] = {}

    def __call__(self, exchange: int, prefill: RunningPrefill | None) -> None:
        """Take what is known of ``exchange``; None: it is over."""
        if prefill is None:
            self._running.pop(exchange, None)
            self._next.pop(exchange, None)
        else:
            self._running[exchange] = prefill
            progress = prefill.progress
            if progress is not None and prefill.seconds >= self._next.get(exchange, _LONG):
                self._next[exchange] = prefill.seconds + _AGAIN
                _log.info("{text}", text=hide_text(line(prefill, progress)))
        self.changed()

    def as_json(self, now: float) -> list[dict[str, Any]]:
        """Return those that run, the longest first; ``now``: seconds since the epoch."""
        running = sorted(self._running.values(), key=lambda each: each.began)[:_MOST]
        return [
            {
                "session": hide_text(each.session),
                "conversation": hide_text(each.conversation),
                "turn": each.turn,
                "done": each.progress and each.progress.done,
                "total": each.progress and each.progress.total,
                "seconds": max(0.0, now - each.began),
            }
            for each in running
        ]


def line(prefill: RunningPrefill, progress: Progress) -> str:
    """Return the line for the log."""
    done, total = progress.done, progress.total
    return (
        f"{time.strftime('%H:%M:%S')} {prefill.session:<12} #{prefill.turn:<3}  "
        f"prefill {done:,} of {total:,} tokens ({done / total:.0%}) after {prefill.seconds:.0f}s"
    )


@dataclass(slots=True)
class Latest:
    """The looks taken last and what runs now, for pages that show it."""

    looks: dict[str, Look] = field(default_factory=dict)  #: by the upstreams' URLs
    prefills: Prefills = field(default_factory=Prefills)  #: prompts that are being read

    def keep(self, urls: Collection[str]) -> None:
        """Forget what was seen of other upstreams than those at ``urls``."""
        self.looks = {url: look for url, look in self.looks.items() if url in urls}
