r"""Cline for cacheproxy: what tells its requests, and the date in its system text.

Shapes, from its public releases. The CLI 3.x and its SDK (``@cline/shared``, the prompts for acting
and for work without questions) have one text with::

    Environment you are running in:
    <env>
    1. Platform: linux
    2. Date: 11/21/2026
    3. IDE: Terminal Shell
    4. Working Directory: /home/me/project
    </env>

The date is JavaScript's ``toLocaleDateString``: each country writes it its own way. The user's own
rules stand behind it, so that the first such block is Cline's. The extension and the CLI up to 2.x
have no date in the system text; their "# Current Time" stands in each user message and stays as
it was.

The user agent is that of an SDK (``ai-sdk/openai-compatible/…``), or ``Cline/…``; else the first
sentence of the system text tells.
"""

from __future__ import annotations

from cacheproxy import SYSTEM_HEAD, Client, Rule

CLIENT = Client(
    name="cline",
    agents=("cline/",),
    head=(
        "You are Cline, an AI coding agent.",
        "You are Cline, a careful and helpful coding agent",
        # the extension, and the CLI up to 2.x: one for each family of models
        "You are Cline, a highly skilled software engineer",
        "You are Cline, a software engineering AI.",
        "You are Cline, a senior software engineer",
    ),
)
PIN_DATE = Rule(
    name="cline-pin-date",
    where=SYSTEM_HEAD,
    pattern=(
        r"\A[\s\S]*?\nEnvironment you are running in:\n<env>\n1\. Platform: [^\n]*\n"
        r"2\. Date: (?P<volatile>[^\n]{6,40})\n3\. IDE: [^\n]*\n4\. Working Directory: "
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("2. Date: ",),
)
RULES = (PIN_DATE,)
