"""How much memory a reader holds while it is fed without end."""

import tracemalloc
from collections.abc import Callable


def most_held(feed: Callable[[], object], times: int) -> int:
    """Call ``feed`` so many times; return the most bytes that Python held meanwhile."""
    tracemalloc.start()
    try:
        for _ in range(times):
            feed()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
