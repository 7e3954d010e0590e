r"""Qwen Code for cacheproxy: rules for git status, date, folders and reminders; its sessions.

Shapes, from Qwen Code 0.24.4 (``packages/core/src/utils/gitDirect.ts``,
``environmentContext.ts``, ``core/client.ts``) and its requests:

- the system text ends with::

      Git snapshot at conversation start. …
      ```text
      git: Current branch: main
      git: Status:
      git: ?? new.txt
      git: Recent commits:
      git: d9e3c68 Add a file
      ```

- the first user message begins with blocks ``<system-reminder>``; one of them::

      This is the Qwen Code. We are setting up the context for our chat.
      Today's date is Saturday, November 21, 2026.
      My operating system is: linux
      …
      Here is the folder structure of the current working directories:

      …

- blocks of the same kind before the user's text are for the current turn: the date (once in each
  process), plan mode and so on. ``--resume`` removes them from the history.

All other shapes are made anew when a session is resumed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cacheproxy import (
    FIRST_USER_TEXT,
    SYSTEM_TEXT,
    Client,
    CodeRule,
    Edit,
    Launch,
    Need,
    Request,
    Rule,
    Setup,
    hookimpl,
    match_paths,
    messages_of,
    quick,
)

_EXTRACTION = "You are now acting as the managed memory extraction subagent for an AI coding"
CLIENT = Client(
    name="qwen",
    agents=("qwencode/",),
    advice=(
        (
            "left during prefill",
            "Qwen Code",
            (
                "cacheproxy run qwen sets QWEN_CODE_API_TIMEOUT_MS and "
                "QWEN_STREAM_IDLE_TIMEOUT_MS to an hour"
            ),
        ),
    ),
    # For gateways that send a user agent of their own.
    head=("You are Qwen Code, a", _EXTRACTION),
)
_CONTEXT = (
    r"\A(?:<system-reminder>\n)?This is the Qwen Code\. "
    r"We are setting up the context for our chat\.\nToday's date is "
)
_LIMITS = (
    "QWEN_CODE_API_TIMEOUT_MS",
    "QWEN_STREAM_IDLE_TIMEOUT_MS",
    "QWEN_STREAM_MAX_LIFETIME_MS",
)
_GIVEN = re.compile(rf"<system-reminder>\n|{_CONTEXT}")
_FOLDERS = "Here is the folder structure of the current working directories:"
_REMINDER = re.compile(r"<system-reminder>\n[\s\S]*\n</system-reminder>\s*")
_DIRECTORY = re.compile(r"\nI'm currently working in the [^\n]*(?:\n  - [^\n]*)*")


@quick
def _reminders(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Put back the reminders that the client has removed before a user's text.

    A note after that text is left to its pin, which puts it back itself.
    """
    (name, messages), (_, before) = messages_of(request), messages_of(previous)
    for number, (message, sent) in enumerate(zip(messages, before, strict=False)):
        content = _blocks(message)
        if message.get("role") == "user" and len(content) < len(had := _blocks(sent)):
            new = _with_reminders(content, had)
            if len(new) > len(content):
                yield Edit(f"/{name}/{number}/content", new, KEEP_REMINDERS.why)


def _with_reminders(content: list[Any], had: list[Any]) -> list[Any]:
    """Return ``content`` with the reminders that ``had`` has before the user's text.

    If anything else differs, ``content`` is returned unchanged.
    """
    if not content or content[-1] not in had:
        return content
    new, left = [], list(content)
    end = len(had) - had[::-1].index(content[-1])
    for block in reversed(had[:end]):
        if left and (block == left[-1] or (_is_context(block) and _is_context(left[-1]))):
            new.append(left.pop())
        elif _is_reminder(block):
            new.append(block)
        else:
            return content
    return content if left else new[::-1]


def _blocks(message: dict[str, Any]) -> list[Any]:
    """Return a message's content as blocks: a text becomes one; [] without content."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _is_reminder(block: Any) -> bool:
    """Return whether ``block`` is nothing but a ``<system-reminder>``."""
    return _REMINDER.fullmatch(_text(block)) is not None


def _is_context(block: Any) -> bool:
    """Return whether ``block`` is the startup context, which the pins below restore."""
    return re.match(_CONTEXT, _text(block)) is not None


def _text(block: Any) -> str:
    """Return the text of ``block``, "" if it has none."""
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


KEEP_REMINDERS = CodeRule(
    name="qwen-keep-reminders",
    why="reminder of an earlier turn put back where it was",
    find=_reminders,
    literals=("<system-reminder>",),
    needs_previous=True,
)
PIN_GIT_STATUS = Rule(
    name="qwen-pin-git-status",
    where=SYSTEM_TEXT,
    # The last such section: a file of the user's that quotes one comes before it.
    pattern=(
        r"(?m:^)Git snapshot at conversation start\. [^\n]*\n```text\n"
        r"(?P<volatile>git: [^\n]*+(?:\ngit: [^\n]*+)*+)\n```(?=\n|\Z)"
        r"(?![\s\S]*\nGit snapshot at conversation start\. )"
    ),
    why="git status of the first turn kept",
    pin=True,
    note="The git snapshot is now:\n\\g<volatile>",
    literals=("Git snapshot at conversation start. ",),
)
PIN_DATE = Rule(
    name="qwen-pin-date",
    where=FIRST_USER_TEXT,
    pattern=(
        _CONTEXT + r"(?P<volatile>[A-Z][^\n(.]{6,60})(?: \([^\n)]*\))?\.\nMy operating system is: "
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("This is the Qwen Code. ",),
)
PIN_FOLDERS = Rule(
    name="qwen-pin-folders",
    where=FIRST_USER_TEXT,
    pattern=(
        _CONTEXT + r"[^\n]*\nMy operating system is: [^\n]*\n(?:[^\n]*\n){1,50}?"
        rf"{_FOLDERS}\n\n(?P<volatile>(?:(?!\n</system-reminder>)[\s\S])*\S)"
        r"\s*(?:</system-reminder>\s*)?\Z"
    ),
    why="folder tree of the first turn kept",
    pin=True,
    note="The folder structure is now:\n\\g<volatile>",
    literals=("This is the Qwen Code. ",),
)
RULES: tuple[Rule | CodeRule, ...] = (KEEP_REMINDERS, PIN_GIT_STATUS, PIN_DATE, PIN_FOLDERS)


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return a hash of folder and first words, with ``:memory`` for the memory extraction.

    Sixteen hex digits; None without a user's own text. Qwen Code's requests have no id of a
    session. Its memory extraction sends the whole conversation with another system text; by this id
    it counts as the conversation's subagent.
    """
    texts = [
        text
        for place in FIRST_USER_TEXT
        for _, text in match_paths(request.json, place)
        if isinstance(text, str)
    ]
    typed = [text for text in texts if not _GIVEN.match(text)]
    if not typed:
        return None
    directory = next(filter(None, map(_DIRECTORY.search, texts)), None)
    told = "\0".join([directory[0] if directory else "", *typed])
    identity = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    opening = request.opening[0][0] if request.opening else ""
    return f"{identity}:memory" if opening.startswith(_EXTRACTION) else identity


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return variables (qwenlm.github.io/qwen-code-docs); the window goes into Qwen Code's file.

    Its default timeouts are 120 seconds for a head, 240 in a stream, and 900 for a whole answer.
    """
    variables = {"OPENAI_BASE_URL": need.openai, "OPENAI_API_KEY": need.key}
    if need.model is not None:
        variables["OPENAI_MODEL"] = need.model
    launch = Launch("qwen", "npm install --global @qwen-code/qwen-code")
    notes: tuple[str, ...] = ()
    told: dict[str, Any] = {}
    if need.context is not None:
        told = {"model": {"generationConfig": {"contextWindowSize": need.context}}}
        notes = (f"The context window goes into ~/.qwen/settings.json: {json.dumps(told)}",)
    # A model in the user's file wins over variables. A $ in this file would be expanded.
    if need.model is not None and "$" not in need.model:
        name = {"id": need.model, "name": need.model}
        ours = {**name, "baseUrl": need.openai, "envKey": "OPENAI_API_KEY", **told.get("model", {})}
        told["model"] = {"name": need.model, **told.get("model", {})}
        told["modelProviders"] = {"openai": [ours]}
        told["security"] = {"auth": {"selectedType": "openai"}}
    if told:  # read after the user's own file, whose other settings stay
        file = {"QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{need.folder}/settings.json"}
        launch = replace(launch, variables=file, files={"settings.json": Setup.json(told)})
    warnings = need.no_header("Qwen Code")
    limits = dict.fromkeys(_LIMITS, str(need.patience * 1000))
    return Setup(variables, notes=notes, warnings=warnings, launch=launch, limits=limits)
