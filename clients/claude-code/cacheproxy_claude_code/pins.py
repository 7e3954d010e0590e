"""Pins of the dates and of the git status, which change at midnight or when a session is resumed.

A session's first value stays in its place, and a note with the new one comes where the conversation
goes on, as Claude Code itself does since 2.1.261.
"""

from __future__ import annotations

from cacheproxy import FIRST_USER_TEXT, SYSTEM_TEXT, Rule

_DATE = r"Today's date is now \g<volatile>."

PIN_CURRENT_DATE = Rule(
    name="claude-pin-current-date",
    where=FIRST_USER_TEXT,
    # It must be in the reminder that the client puts before the user's text (2.1.100 to 2.1.260).
    pattern=(
        r"\A<system-reminder>\n(?:(?!</system-reminder>)[\s\S])*?"
        r"(?<=\n)# currentDate\nToday's date is (?P<volatile>\d{4}-\d{2}-\d{2})\.?\n"
    ),
    why="date of the first turn kept",
    pin=True,
    note=_DATE,
    literals=("# currentDate",),
)

PIN_GIT_STATUS = Rule(
    name="claude-pin-git-status",
    where=SYSTEM_TEXT,
    # The section ends the system text; a heading or tag after it begins another section.
    pattern=(
        r"(?m:^)gitStatus: This is the git status[^\n]*\n++"
        r"(?P<volatile>[^\n]++(?:\n(?!\n[#<])[^\n]*+)*+)"
    ),
    why="git status of the first turn kept",
    pin=True,
    note="The git status is now:\n\n\\g<volatile>",
    literals=("gitStatus: ",),
)

PIN_DATE = Rule(
    name="claude-pin-date",
    where=SYSTEM_TEXT,
    # The whole environment block with ``--bare``: "CWD: /path\nDate: 2026-11-21".
    pattern=r"(?m)^CWD: [^\n]*\nDate: (?P<volatile>\d{4}-\d{2}-\d{2})$",
    why="date of the first turn kept",
    pin=True,
    note=_DATE,
    literals=("Date: ",),
)

PIN_MONTH = Rule(
    name="claude-pin-month",
    # Description of its own tool (2.1.100 to 2.1.280) in Anthropic's API, OpenAI's, and Responses.
    where=(
        "/tools/*[name=WebSearch]/description",
        "/tools/*/function[name=WebSearch]/description",
    ),
    pattern=r"(?m)^ *- The current month is (?P<volatile>[A-Z][a-z]{2,8} \d{4})\b",
    why="month of the first turn kept in the description of WebSearch",
    pin=True,
    note=r"The current month is now \g<volatile>.",
    literals=("The current month is ",),
)
