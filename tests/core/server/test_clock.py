"""Whether a rendered text tells the day or the time."""

from datetime import UTC, datetime

import pytest

from cacheproxy.core.server.clock import clock_formats, clock_in

NOW = datetime(2026, 11, 22, 12, 58, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("Today: 2026-11-22", "the date"),
        ("Today Date: 22 Nov 2026", "the date"),
        ("Current date: November 21, 2026", "the date"),
        ("on 11/23/2026.", "the date"),
        ("It is 12:58:07", "the time"),
        ("It is 18:28, in India", "the time"),
        ("Cutting Knowledge Date: December 2023", ""),
        ("Today Date: 26 Jul 2024", ""),
        ("as in Genesis 1:04", ""),
        ("", ""),
    ],
)
def test_a_clock_is_told_by_what_it_says(text, clock):
    """A day or a quarter of an hour apart is a time zone; other dates are the model's own."""
    assert clock_in(text, NOW) == clock


def test_a_form_that_only_the_template_has_is_looked_for():
    assert clock_in("day 22-of-11", NOW) == ""
    assert clock_in("day 22-of-11", NOW, ("%d-of-%m",)) == "the date"


def test_the_formats_stand_in_the_template():
    assert clock_formats("{{ strftime_now('%H:%M') }}{{ strftime_now(\"%d %b\") }}") == (
        "%H:%M",
        "%d %b",
    )
    assert clock_formats(None) == ()
