r"""LibreChat for cacheproxy: dates and times that its special variables put into instructions.

Shapes, from LibreChat's sources (``packages/data-provider/src/parsers.ts``): with every request, in
the instructions of an agent or a preset, which are system text,

- ``{{current_date}}`` becomes ``2026-11-22 (Sunday)``, formerly ``2026-11-22 (0)``;
- ``{{current_datetime}}`` becomes ``2026-11-22 14:03:59 +01:00 (Sunday)``, formerly
  ``2026-11-22 14:03:59 (0)``;
- ``{{iso_datetime}}`` becomes ``2026-11-22T13:03:59.000Z``.

LibreChat has the user agent of an SDK, and its system text is its users'. So a header has to tell
its requests, one that its own configuration adds (README.md).
"""

from __future__ import annotations

from cacheproxy import SYSTEM_TEXT, Client, Rule

CLIENT = Client(name="librechat", headers=("x-librechat-session-id",))
_DAY = r"\((?:(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day|[0-6])\)"

PIN_DATE = Rule(
    name="librechat-pin-date",
    where=SYSTEM_TEXT,
    pattern=rf"(?<![\d-])(?P<volatile>\d{{4}}-\d{{2}}-\d{{2}} {_DAY})",
    why="date of the first turn kept",
    pin=True,
    note=r"The current date is now \g<volatile>.",
)
PIN_TIME = Rule(
    name="librechat-pin-time",
    where=SYSTEM_TEXT,
    pattern=(
        r"(?<![\d-])(?P<volatile>\d{4}-\d{2}-\d{2}"
        rf"(?: \d{{2}}:\d{{2}}:\d{{2}}(?: [+-]\d{{2}}:\d{{2}})? {_DAY}"
        r"|T\d{2}:\d{2}:\d{2}\.\d{3}Z))"
    ),
    why="time of the first turn kept",
    pin=True,
    note=r"The current time is now \g<volatile>.",
)
RULES = (PIN_DATE, PIN_TIME)
