r"""opencode for cacheproxy: what tells its requests, and the date in its system text.

Shapes, from its public sources and releases (``packages/opencode/src/session/system.ts``, 0.5.29 to
1.18.33), one text that holds them all::

    You are powered by the model named …
    Here is some useful information about the environment you are running in:
    <env>
      Working directory: /home/me/project
      Is directory a git repo: yes
      Platform: linux
      Today's date: Sat Nov 21 2026
    </env>

The date is JavaScript's ``toDateString``, which is English everywhere. Before it stands the
prompt for the model, behind it what the user's own files say (AGENTS.md), so that the first such
block is opencode's.

From 1.1 its user agent is ``opencode/…``; before that, and behind a gateway, the beginning of the
system text tells. Sessions and subagents (``x-session-id``, ``x-parent-session-id``) are read by
cacheproxy itself, from any client.
"""

from __future__ import annotations

from cacheproxy import SYSTEM_TEXT, Client, Rule

CLIENT = Client(
    name="opencode",
    agents=("opencode/",),
    # One prompt for each family of models.
    head=(
        "You are opencode, an ",
        "You are OpenCode, ",
        "You are a coding agent running in the opencode, a terminal-based coding assistant",
    ),
)
PIN_DATE = Rule(
    name="opencode-pin-date",
    where=SYSTEM_TEXT,
    pattern=(
        r"\A[\s\S]*?Here is some useful information about the environment you are running in:\n"
        r"<env>\n(?:  [A-Z][^\n]*\n){1,8}?"
        r"  Today's date: (?P<volatile>[A-Z][a-z]{2} [A-Z][a-z]{2} \d{2} \d{4})\n</env>"
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("  Today's date: ",),
)
RULES = (PIN_DATE,)
