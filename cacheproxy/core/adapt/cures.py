"""Cures: refusals that no change of a request can mend, and the commands that do."""

from __future__ import annotations

import re

_CURES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"--enable-auto-tool-choice"),
        "start the server with --enable-auto-tool-choice and --tool-call-parser NAME",
    ),
    (re.compile(r"requires? (?:the )?`?--jinja"), "start the server with --jinja"),
    (
        re.compile(r"chat template is no longer allowed|does not have a chat template"),
        "start the server with --chat-template FILE: its model brings no template",
    ),
    (
        re.compile(r"Start it with `?--(?P<flag>[a-z-]+)"),
        r"start the server with --\g<flag>, as it says",
    ),
    (
        re.compile(r"does not support (?P<what>tools|chat|generate|embeddings)\b"),
        r"serve a model that supports \g<what>, as this one does not",
    ),
    (
        re.compile(r"\bmodel\b.{0,80}(?:not found|does not exist)"),
        "name a model that the server has: cacheproxy doctor lists what it serves",
    ),
    (
        re.compile(r"previous_response_id"),
        "have the client send the whole history (store = false): the server keeps none",
    ),
)
"""Patterns of servers' messages, each with its cure for people."""


def cure(words: str) -> str:
    """Return the cure for a server's message ``words``, for people; "" if none is known."""
    for pattern, mend in _CURES:
        if (found := pattern.search(words)) is not None:
            return found.expand(mend)
    return ""
