r"""goose for cacheproxy: rules for the date in its system text and turn context; its sessions.

Shapes, from goose's sources (``crates/goose/src/prompts/system.md``,
``crates/goose/src/agents/prompt_manager.rs``, ``crates/goose/src/session_context.rs``):

- the system text, in older versions, begins with::

      You are a general-purpose AI agent called goose, created by Block, …
      goose is being developed as an open-source software project.

      The current date is 2025-09-30 14:00.

  It is the hour in which the process began; in still older versions, the second;

- the newest user message has, before the user's text (``moim.rs`` there)::

      <turn-context>
      <current-time>2026-11-23 14:05:00</current-time>
      <working-directory>/home/me/x</working-directory>
      <compaction>~97k tokens remaining</compaction>
      <turn-budget>26/50 used</turn-budget>
      </turn-context>

  Older versions write it anew with each tool call, and remove it when the user has sent the next
  message. In the newest versions it stays, as it was when the turn began;

- the header ``agent-session-id`` is the session; other programs send it, too.

goose sends no user agent; its requests are recognised by the beginning of the system text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cacheproxy import (
    FIRST_USER_TEXT,
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

CLIENT = Client(
    name="goose",
    advice=(
        (
            "left during prefill",
            "goose",
            "cacheproxy run goose sets OPENAI_TIMEOUT and GOOSE_STREAM_TIMEOUT",
        ),
    ),
    head=(
        "You are a general-purpose AI agent called goose, created by ",
        "You are a general-purpose AI agent called Goose, created by ",
        "You are a specialized subagent within the goose AI framework",
    ),
)
PIN_DATE = Rule(
    name="goose-pin-date",
    where=SYSTEM_HEAD,
    pattern=(
        r"\AYou are a general-purpose AI agent called [Gg]oose, created by [^\n]*\n(?:[^\n]+\n)?"
        r"\nThe current date is (?P<volatile>\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}(?::\d{2})?)?)\.\n"
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"The current date is now \g<volatile>.",
    literals=("The current date is ",),
)
_CONTEXT = re.compile(
    r"<turn-context>\n<current-time>[^\n]*\n(?:(?!</?turn-context>)[\s\S])*</turn-context>\n*"
)


_MOVES_ON = re.compile(
    r"<current-time>[^\n]*\n|(?:<compaction>)?~\d+k tokens remaining[^\n]*\n|<turn-budget>[^\n]*\n"
)


@quick
def _contexts(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Put the previous turn's context back before a user's text.

    Newer versions leave it there by themselves; the current context comes before the newest user
    message. The first message's context, while it is there, is left to the pins, which report new
    values in notes.
    """
    (name, messages), (_, before) = messages_of(request), messages_of(previous)
    is_first = True
    for number, (message, sent) in enumerate(zip(messages, before, strict=False)):
        if message.get("role") != "user":
            continue
        (now, text), (was, _) = (_split(one.get("content")) for one in (message, sent))
        may, is_first = not (is_first and now), False
        if may and was != now and _MOVES_ON.sub("", was) == _MOVES_ON.sub("", now or was):
            path = f"/{name}/{number}/content"
            had = sent["content"]
            if isinstance(text, str) and text and had.startswith(text, len(was)):
                yield Edit(path, was, KEEP_CONTEXT.why, (0, len(now)))
            elif isinstance(text, list) and text and had[1 : len(text) + 1] == text:
                yield Edit(path, [had[0], *text], KEEP_CONTEXT.why)


def _split(content: Any) -> tuple[str, Any]:
    """Return the context at the start of ``content``, "" for none, and the rest."""
    if isinstance(content, str):
        found = _CONTEXT.match(content)
        return (found[0], content[found.end() :]) if found else ("", content)
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else None
    if isinstance(text, str) and _CONTEXT.fullmatch(text):
        return text, content[1:]
    return "", content


KEEP_CONTEXT = CodeRule(
    name="goose-keep-context",
    why="turn context of an earlier turn put back where it was",
    find=_contexts,
    needs_previous=True,
)
_IN_CONTEXT = r"\A<turn-context>\n<current-time>"
_TO_ITS_END = r"(?:(?!</?turn-context>)[\s\S])*?"
PIN_TIME = Rule(
    name="goose-pin-time",
    where=FIRST_USER_TEXT,
    pattern=_IN_CONTEXT + r"(?P<volatile>[^<\n]+)</current-time>\n",
    why="time at which the turn began kept",
    pin=True,
    note=r"The current time is now \g<volatile>.",
    literals=("<current-time>",),
)
PIN_TOKENS = Rule(
    name="goose-pin-tokens",
    where=FIRST_USER_TEXT,
    pattern=_IN_CONTEXT + _TO_ITS_END + r"(?P<volatile>~\d+k tokens remaining)",
    why="tokens that remained when the turn began kept",
    pin=True,
    note=r"Until compaction there are now \g<volatile>.",
    literals=("k tokens remaining",),
)
PIN_BUDGET = Rule(
    name="goose-pin-budget",
    where=FIRST_USER_TEXT,
    pattern=_IN_CONTEXT + _TO_ITS_END + r"<turn-budget>(?P<volatile>[^<\n]+)</turn-budget>",
    why="turn budget as it was when the turn began kept",
    pin=True,
    note=r"The turn budget is now \g<volatile>.",
    literals=("<turn-budget>",),
)
RULES: tuple[Rule | CodeRule, ...] = (KEEP_CONTEXT, PIN_DATE, PIN_TIME, PIN_TOKENS, PIN_BUDGET)
_INSTALL = (
    "curl -fsSL https://github.com/block/goose/releases/download/stable/download_cli.sh | bash"
)


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return the session in goose's header; a subagent has a session of its own."""
    return request.header("agent-session-id") or None


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return variables (goose-docs.ai: environment variables, providers); no path: the default."""
    variables = {
        "GOOSE_PROVIDER": "openai",
        "OPENAI_HOST": need.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": need.key,
    }
    if need.model is not None:
        variables["GOOSE_MODEL"] = need.model
    if need.context is not None:
        variables["GOOSE_CONTEXT_LIMIT"] = str(need.context)
    if need.needs_header:
        variables["OPENAI_CUSTOM_HEADERS"] = f"{need.token_header}={need.token}"
    # defaults: 600 seconds for a request, and 150 between two lines
    limits = dict.fromkeys(("OPENAI_TIMEOUT", "GOOSE_STREAM_TIMEOUT"), str(need.patience))
    return Setup(variables, launch=Launch("goose", _INSTALL), limits=limits)
