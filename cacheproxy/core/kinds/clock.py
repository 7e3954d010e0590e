"""The search for the current day or time in a text that a server has just rendered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

DATE, TIME = "the date", "the time"
_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y"),
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%A, %B %d"),
)
"""Formats in which gpt-oss, Llama 3.2, SmolLM3, Granite and others write a day."""
_TIME = re.compile(r"(?<![\d:.])[0-2]?\d:([0-5]\d)(?![\d.])")
_ASKED = re.compile(r"strftime_now\(\s*(['\"])(.{1,80}?)\1\s*\)")
_LEADING_ZERO = re.compile(r"\b0(?=\d)")
_MOST_FORMATS = 8
_SHORTEST = 6
"""Characters that a written day has at least: a shorter one might be any other number."""


def clock_in(text: str, now: datetime, formats: Sequence[str] = ()) -> str:
    """Return TIME or DATE if ``text`` contains that of ``now``, else "".

    Usual forms are searched for, and ``formats`` of strftime. Time zones differ by up to a day,
    and by quarters of an hour.
    """
    is_asked = any("%H" in each or "%I" in each for each in formats)
    for found in _TIME.finditer(text):
        if is_asked:
            return TIME
        apart = abs(int(found[1]) - now.minute) % 15
        if min(apart, 15 - apart) <= 2:  # minutes that the server's clock may differ from ours
            return TIME
    return DATE if any(day in text for day in _days(now.date(), formats)) else ""


def clock_formats(source: object) -> tuple[str, ...]:
    """Return the formats of strftime in which a template's ``source`` prints the time."""
    if not isinstance(source, str):
        return ()
    found = dict.fromkeys(each[2] for each in _ASKED.finditer(source))
    return tuple(found)[:_MOST_FORMATS]


def _days(today: date, formats: Sequence[str]) -> Iterator[str]:
    """Yield today, yesterday and tomorrow, in each format that writes a whole day."""
    for day in (today, today - timedelta(1), today + timedelta(1)):
        for each in (*_FORMATS, *formats):
            try:
                written = day.strftime(each)
            except ValueError:
                continue
            if len(written) >= _SHORTEST and any(c.isdigit() for c in written):
                yield written
                yield _LEADING_ZERO.sub("", written)
