r"""aider for cacheproxy: rules for the date and the reminder of the edit format; its sessions.

Shapes, from aider 0.86.2 (``aider/coders/base_coder.py``, ``*_prompts.py``) and its requests:

- the system text, if shell commands are allowed, has::

      - Platform: Linux-6.1.0-x86_64
      - Shell: SHELL=/bin/bash
      - Language: English
      - Current date: 2026-11-21

- the system text ends with the rules of the edit format, and the last user message repeats them
  after an empty line. In the history, a message has only the text that the user typed.

aider has the user agent of an SDK (``OpenAI/Python 2.20.0``): its requests are recognised by the
first two lines of the system text.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect
from collections.abc import Iterator

from cacheproxy import (
    SYSTEM_HEAD,
    Client,
    CodeRule,
    Edit,
    Launch,
    Need,
    Request,
    Rule,
    Setup,
    hookimpl,
    messages_of,
    quick,
)

_DEVELOPER = "Act as an expert software developer"
CLIENT = Client(
    name="aider",
    advice=(
        (
            "left during prefill",
            "aider",
            "cacheproxy run aider sets AIDER_TIMEOUT to an hour",
        ),
    ),
    head=(
        f"{_DEVELOPER}.\nAlways use best practices when coding.\n",
        f"{_DEVELOPER}.\nTake requests for changes to the supplied code.\n",
        f"{_DEVELOPER} who edits source code.\n",
        f"{_DEVELOPER} and make changes to source code.\n",
        "Act as an expert architect engineer and provide direction to your editor engineer.\n",
        "Act as an expert code analyst.\nAnswer questions about the supplied code.\n",
        "Act as an expert code analyst.\nUnderstand the user's question or request, solely to ",
        "You are an expert on the AI coding tool called Aider.\n",
        "You are an expert software engineer that generates concise, one-line Git commit messages",
        "*Briefly* summarize this partial conversation about programming.\n",
    ),
    # Unified diffs: a language and other settings may stand between the first two lines.
    lines=(
        r"# File editing rules:\n\nReturn edits similar to unified diffs that `diff -U0` would ",
    ),
)
_SUBJECTS = (
    "I switched to a new code base. Please don't consider the above files",
    "Here are summaries of some files present in my git repository.\n",
    "I am working with you on code in a git repository.\n",
    "I have *added these files to the chat* so you ",
    "Here are some READ ONLY files, provided for your reference.\n",
    "Don't try and edit any existing code without asking me to add the files to the chat!\n",
    "I am not sharing ",
    "Here are some images as ",
    "I spoke to you previously about a number of things.\n",
)
"""Beginnings of the messages that aider itself writes in the user's role."""

_EMPTY_LINE = re.compile(r"\n\n(?=[^\n])")
_NOTE = re.compile(r"\n\n<system-reminder>\n")


@quick
def _reminders(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Put the format reminder back after a user's text, if the previous turn had it there.

    A note after the reminder is left to its pin, which puts it back itself.
    """
    name, messages = messages_of(request)
    system = messages[0].get("content") if messages else None
    if not isinstance(system, str):
        return
    _, before = messages_of(previous)
    for number, (message, sent) in enumerate(zip(messages, before, strict=False)):
        text, had = message.get("content"), sent.get("content")
        if message.get("role") != "user" or not isinstance(text, str) or not isinstance(had, str):
            continue
        if len(text) < len(had) and had.startswith(text):
            end = _end_of_reminder(had, len(text), system)
            if end is not None:
                new, at = had[len(text) : end], (len(text), len(text))
                yield Edit(f"/{name}/{number}/content", new, KEEP_REMINDER.why, at)


def _end_of_reminder(text: str, at: int, system: str) -> int | None:
    """Return the end of the reminder after an empty line at ``at``, None if there is none.

    The reminder is a text with which ``system`` ends, too.
    """
    if not text.startswith("\n\n", at):
        return None
    ends = [found.start() for found in _NOTE.finditer(text, at + 2, at + len(system) + 20)]
    for end in (*ends, len(text)):
        if end > at + 2 and system.endswith(text[at + 1 : end]):
            return end
    return None


def _typed(text: str, system: str) -> str:
    """Return ``text`` without its reminder: an empty line, and a text that ends ``system``, too."""
    ends = range(1, min(len(text), len(system)) + 1)
    shared = bisect(ends, False, key=lambda count: not system.endswith(text[-count:]))
    found = _EMPTY_LINE.search(text, max(0, len(text) - shared - 1))
    return text if found is None else text[: found.start()]


KEEP_REMINDER = CodeRule(
    name="aider-keep-reminder",
    why="format reminder kept where it stood in the turn before",
    find=_reminders,
    default=False,
    needs_previous=True,
)
PIN_DATE = Rule(
    name="aider-pin-date",
    where=SYSTEM_HEAD,
    pattern=(
        r"(?m)^- Platform: [^\n]*\n- Shell: [^\n]*\n(?:- Language: [^\n]*\n)?"
        r"- Current date: (?P<volatile>\d{4}-\d{2}-\d{2})$"
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("- Current date: ",),
)
RULES: tuple[Rule | CodeRule, ...] = (KEEP_REMINDER, PIN_DATE)


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return a hash of the user's first text, without the format reminder.

    aider's requests have no id of a session, and all begin with the same examples: the text after
    these and after the files is the first that differs.
    """
    _, messages = messages_of(request)
    system = messages[0].get("content") if messages else None
    if not isinstance(system, str) or not system.startswith("Act as an expert "):
        return None
    texts = [one.get("content") for one in messages[1:] if one.get("role") == "user"]
    users = [text for text in texts if isinstance(text, str)]
    examples = [number for number, text in enumerate(users) if text.startswith(_SUBJECTS[0])]
    for text in users[examples[-1] + 1 :] if examples else users:
        if not text.startswith(_SUBJECTS):
            typed = _typed(text, system).encode("utf-8", "surrogatepass")
            return hashlib.sha256(typed).hexdigest()[:16]
    return None


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return aider's variables (aider.chat/docs/llms/openai-compat.html); it limits no context."""
    variables = {"OPENAI_API_BASE": need.openai, "OPENAI_API_KEY": need.key}
    if need.model is not None:
        variables["AIDER_MODEL"] = f"openai/{need.model}"
    launch = Launch("aider", "uv tool install aider-chat")
    limits = {"AIDER_TIMEOUT": str(need.patience)}  # default: 600 seconds
    return Setup(variables, warnings=need.no_header("aider"), launch=launch, limits=limits)
