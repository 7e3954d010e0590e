"""The reactor's timers run by the clock that only goes forward."""

from __future__ import annotations

import time
from typing import Any


def keep_time(reactor: Any) -> None:
    """Let ``reactor`` count its seconds by ``time.monotonic``; before it has any timer.

    Twisted counts by the time of day (``twisted.python.runtime.seconds``): set back by an hour, the
    machine's clock would stop every deadline, ping, poll and record for that hour; set forward, it
    would end them all at once.
    """
    vars(reactor)["seconds"] = time.monotonic
