"""Counters that begin at zero again, and responses that nobody counted: nothing twice or lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.server.counters import (
    NOTHING,
    Figures,
    Gain,
    Reading,
    Told,
    gain,
    settle,
    total,
)
from tests.core.serving import AMOUNTS, World, figures_of, of_others, of_ours


def reading(start=None, tasks=None, **figures):
    return Reading(Figures(**figures), start, tasks)


@pytest.mark.parametrize(
    ("before", "now", "gained"),
    [
        (None, reading(evaluated=7, reused=3), Figures(prompt=10, evaluated=7, reused=3)),
        (
            reading(evaluated=7, reused=3),
            reading(evaluated=9, reused=8),
            Figures(prompt=7, evaluated=2, reused=5),
        ),
        # SGLang's series for cached tokens comes with the first hit: it had been at zero
        (
            reading(prompt=7),
            reading(prompt=9, reused=4),
            Figures(prompt=2, reused=4, evaluated=-2),
        ),
        # hits are counted when a request is scheduled, its prompt when that has been read
        (
            reading(prompt=100, reused=10),
            reading(prompt=100, reused=90),
            Figures(prompt=0, reused=80, evaluated=-80),
        ),
    ],
    ids=["all of the first reading", "the difference", "a new series", "a difference of two fell"],
)
def test_what_a_reading_adds(before, now, gained):
    """What the server did before it was first looked at is part of its lifetime."""
    assert gain(before, now) == Gain(gained, begun=before is None)


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
    gained = gain(reading("a", 5, evaluated=7.0, generated=9.0), after)
    assert gained.begun
    assert gained.figures.evaluated == after.figures.evaluated


def test_what_a_server_has_no_counter_for_is_counted_by_responses():
    told = [Told(Figures(prompt=10, reused=6, evaluated=4, generated=2))]
    settled = settle(told, gain(None, reading(evaluated=4.0, generated=2.0)))
    assert total(settled.tails) == Figures(prompt=10, reused=6)


def test_what_is_beyond_others_is_never_less_than_nothing():
    """And unknown where it was."""
    found = Figures(prompt=10, evaluated=3).beyond(Figures(prompt=4, reused=2, evaluated=5))
    assert found == Figures(prompt=6, evaluated=0)


def test_without_counters_responses_are_all_there_is():
    told = [Told(Figures(prompt=10, generated=2)), Told(Figures(prompt=5))]
    settled = settle(told, None)
    assert total(settled.tails) == Figures(prompt=15, generated=2)
    assert settled.before == {0, 1}
    assert settle([], None).tails == ()


def run(world, events):
    """Keep the totals as a proxy would; return them and those of others' counters alone."""
    counted = [0.0, 0.0, 0.0]
    before, unexplained, told = None, NOTHING, []

    def read():
        nonlocal before, unexplained
        now = world.read()
        gained = gain(before, now)
        settled = settle(told, gained, unexplained)
        for figures in (gained.figures, total(settled.tails)):
            for index, name in enumerate(AMOUNTS):
                counted[index] += getattr(figures, name) or 0
        before, unexplained = now, settled.unexplained
        told.clear()

    for name, *arguments in [*events, ("read",)]:
        if name == "read":
            read()
            continue
        asked = getattr(world, name)(*arguments)
        if asked is not None:
            told.append(Told(figures_of(asked), under_way=asked.began < world.readings))
    return counted


@given(st.lists(of_ours, max_size=30))
def test_where_all_requests_are_ours_totals_are_the_truth(events):
    """Whenever the server is restarted and whenever it is read."""
    world = World()
    assert run(world, events) == world.truth


@pytest.mark.parametrize("marked", [True, False])
@given(st.lists(st.one_of(of_ours, of_others), max_size=30))
def test_nothing_is_counted_twice(marked, events):
    """Others ask, too; a restart may show nowhere: then what others did cannot be told apart."""
    world = World(marked=marked)
    if not marked:
        events = [event for event in events if event[0] != "other"]
    counted = run(world, events)
    assert all(one <= other for one, other in zip(counted, world.truth, strict=True))


@given(st.lists(st.one_of(of_ours, of_others), max_size=30))
def test_no_less_is_counted_than_the_readings_show(events):
    """Differences of what was read, added up, are the least there can be."""
    least, last = [0.0, 0.0, 0.0], None

    class Watched(World):
        def read(self):
            nonlocal last
            now = super().read()
            gained = gain(last, now).figures
            for index, name in enumerate(AMOUNTS):
                least[index] += getattr(gained, name)
            last = now
            return now

    world = Watched()
    counted = run(world, events)
    assert all(one >= other for one, other in zip(counted, least, strict=True))


def test_what_was_read_of_requests_under_way_is_not_counted_again():
    """The last reading held both prompts; what came after is told by the responses alone."""
    told = [
        Told(Figures(evaluated=10, generated=3), under_way=True),
        Told(Figures(evaluated=20, generated=4), under_way=True),
        Told(Figures(evaluated=40, generated=5)),
    ]
    settled = settle(told, gain(reading("a"), reading("b")), Figures(evaluated=25))
    assert total(settled.tails) == Figures(evaluated=5 + 40, generated=3 + 4 + 5)


def test_a_request_from_before_the_last_reading_is_not_of_the_server_begun_after_it():
    """However well it would fit into the new counters."""
    told = [Told(Figures(evaluated=5), under_way=True), Told(Figures(evaluated=7))]
    now = reading("b", evaluated=100.0)
    settled = settle(told, gain(reading("a", evaluated=9.0), now), NOTHING)
    assert settled.before == {0}
    assert total(settled.tails) == Figures(evaluated=5)
    assert settled.unexplained.evaluated == 93
