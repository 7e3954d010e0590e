"""What a server's counters gained: they begin at zero again when it is restarted."""

from __future__ import annotations

import pytest

from cacheproxy.core.servers.status import (
    Look,
    MetricsPage,
    Sample,
    ServerFigures,
    UpstreamState,
    gain,
)


def reading(start=None, tasks=None, **figures):
    sample = Sample(ServerFigures(**figures))
    more = {"metrics": MetricsPage.ON, "sample": sample, "start": start, "tasks": tasks}
    return Look("u", 0.0, 0.0, UpstreamState.UP, **more)


@pytest.mark.parametrize(
    ("before", "now", "gained"),
    [
        (None, reading(evaluated=7, reused=3), ServerFigures(prompt=10, evaluated=7, reused=3)),
        (
            reading(evaluated=7, reused=3),
            reading(evaluated=9, reused=8),
            ServerFigures(prompt=7, evaluated=2, reused=5),
        ),
        # SGLang's series for cached tokens comes with the first hit: it had been at zero
        (
            reading(prompt=7),
            reading(prompt=9, reused=4),
            ServerFigures(prompt=2, reused=4, evaluated=-2),
        ),
        # hits are counted when a request is scheduled, its prompt when that has been read
        (
            reading(prompt=100, reused=10),
            reading(prompt=100, reused=90),
            ServerFigures(prompt=0, reused=80, evaluated=-80),
        ),
    ],
    ids=["all of the first reading", "the difference", "a new series", "a difference of two fell"],
)
def test_what_a_reading_adds(before, now, gained):
    assert gain(before, now) == (gained, before is None)


@pytest.mark.parametrize(
    "after",
    [
        reading("a", 5, evaluated=6.0, generated=9.0),
        reading("b", 5, evaluated=70.0, generated=90.0),
        reading("a", 4, evaluated=70.0, generated=90.0),
    ],
    ids=["a counter fell", "another start", "tasks begin anew"],
)
def test_a_restart_is_seen(after):
    """By any of the three; then all that the new server shows is gained."""
    gained, has_begun = gain(reading("a", 5, evaluated=7.0, generated=9.0), after)
    assert has_begun
    assert gained.evaluated == after.figures.evaluated
