"""Whether a rendered text tells the day or the time."""

from datetime import UTC, datetime

import pytest

from cacheproxy.core.servers.clock import clock_formats, clock_in

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
    """And where it asks for the time of day, any is that."""
    assert clock_in("day 22-of-11", NOW) == clock_in("at 9:37", NOW) == ""
    assert clock_in("day 22-of-11", NOW, ("%d-of-%m",)) == "the date"
    assert clock_in("at 9:37", NOW, ("%H:%M",)) == "the time"
    assert clock_in("", NOW, ("%H:%M", "%B %d, %Y")) == ""  # asked for, not printed


@pytest.mark.parametrize(
    ("source", "formats"),
    [
        ("{{ strftime_now('%H:%M') }}{{ strftime_now( \"%d %b\" ) }}", ("%H:%M", "%d %b")),
        ("{{ strftime_now('%y!') }}{{ strftime_now('%y!') }}", ("%y!",)),
        *((odd, ()) for odd in (None, 7, "", "strftime_now(", "strftime_now('')", "x" * 100_000)),
    ],
)
def test_the_formats_stand_in_the_template(source, formats):
    assert clock_formats(source) == formats
