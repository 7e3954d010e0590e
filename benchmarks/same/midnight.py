"""A night in the middle of a capture: for the client, the server's template and the proxy."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from same.replies import Json

EVENING = datetime(2026, 11, 21, 23, 50, tzinfo=UTC)
MORNING = EVENING + timedelta(minutes=20)
STEP = timedelta(seconds=10)
"""From one line of a capture to the next: no answer takes longer."""
_FORMATS = ("%Y-%m-%d", "%m/%d/%Y", "%A, %B %d, %Y", "%a %b %d %Y")
"""In which the clients of the captures write a day."""
_DAYS = {
    (EVENING + timedelta(days)).strftime(form): (EVENING + timedelta(days + 1)).strftime(form)
    for days in range(-2, 5)
    for form in _FORMATS
}
"""Each day that stands in a capture, and the day after it."""
_DAY = re.compile("|".join(map(re.escape, _DAYS)))
CLOCK = """
import os, time
def scripted_time(file=os.path.abspath("clock"), stat=os.stat):
    return stat(file).st_mtime
time.time = scripted_time
"""
"""What the proxy's process does first: it takes the time from a file's (see ``set_clock``)."""


def set_clock(folder: Path, moment: datetime) -> None:
    """Have it be ``moment`` for the proxy in ``folder``, until it is set again."""
    file = folder / "clock"
    file.touch()
    os.utime(file, (moment.timestamp(), moment.timestamp()))


def names_day(line: Json) -> bool:
    """Whether the client says which day it is."""
    return _DAY.search(line["body"]) is not None


def falls_at(lines: list[Json]) -> int:
    """Return the number of the first line after midnight: the middle one of the prompts."""
    prompts = [number for number, line in enumerate(lines) if line["method"] == "POST"]
    return prompts[len(prompts) // 2]


def over(lines: list[Json]) -> list[Json]:
    """Return ``lines`` with each day replaced by the next one, from the middle on."""
    first = falls_at(lines)
    return [
        line if number < first else line | {"body": _DAY.sub(_day_after, line["body"])}
        for number, line in enumerate(lines)
    ]


def _day_after(found: re.Match[str]) -> str:
    return _DAYS[found[0]]
