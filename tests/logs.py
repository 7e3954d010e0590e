"""Who looks at the log for a while: the tests that say what must stand in it."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from twisted.logger import ILogObserver, globalLogPublisher


@contextlib.contextmanager
def looking(see: ILogObserver) -> Iterator[None]:
    """Hand each log event to ``see`` meanwhile.

    What earlier tests left behind is collected first: else a Deferred of theirs whose error nobody
    handled would tell the log of it now.
    """
    gc.collect()
    globalLogPublisher.addObserver(see)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(see)
