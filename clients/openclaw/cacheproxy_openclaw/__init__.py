r"""OpenClaw for cacheproxy: its marks, rules for ids, timestamps and the date; its sessions.

Shapes, from OpenClaw's sources (``src/auto-reply/reply/inbound-meta.ts``,
``src/gateway/server-methods/agent-timestamp.ts``) and its issues 20597, 20894 and 21785:

- the system or developer text (2026.2.15 to 2026.2.19) has, under "## Inbound Context (trusted
  metadata)", a fenced JSON block with ``"message_id": "6678"``, a UUID or a number, and if it
  differs ``message_id_full``; both change with each request;
- a user text starts with metadata blocks, the first of which is::

      Conversation info (untrusted metadata):
      ```json
      {
        "message_id": "6678",
        ...
      }
      ```

- after these blocks, if any, come ``[Wed 2026-02-18 20:48 UTC] `` and the user's own text.

Only these shapes at these places count. The user's own text starts after them.

No version has a user agent of its own: it is that of an SDK (``OpenAI/JS 7.15.0``, ``undici``),
which other clients send, too. The marks of its requests are in the system text: since 2026.9
``<!-- openclaw:attempt:STABLE -->`` before everything else, in all versions the sentence that comes
next and the Runtime line at the end, from 2026.2.15 on the heading above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cacheproxy import (
    SYSTEM_TEXT,
    USER_TEXT,
    Client,
    CodeRule,
    Edit,
    Request,
    Rule,
    blocks_of,
    hookimpl,
    lines_outside_code,
    match_paths,
    messages_of,
    quick,
    to_pointer,
)
from cacheproxy_openclaw.env import cacheproxy_setup

__all__ = ["CLIENT", "RULES", "cacheproxy_session", "cacheproxy_setup"]

_HEADING = "## Inbound Context (trusted metadata)"
# The heading, and a few lines of plain text up to the JSON.
_INTRODUCTION = (
    r"## Inbound Context \(trusted metadata\)[ \t]*\r?\n"
    r"(?:(?!#|```)[^\n]*\n){0,12}?```json[ \t]*\r?\n"
)
CLIENT = Client(
    name="openclaw",
    agents=("openclaw/",),
    advice=(
        (
            "left during prefill",
            "OpenClaw",
            (
                "timeoutSeconds of its provider, as cacheproxy env openclaw prints it; and "
                "--timeout 3600 behind openclaw agent"
            ),
        ),
    ),
    head=(
        "<!-- openclaw:attempt:",
        "You are a personal assistant running inside OpenClaw",
        "You are a personal agent running inside OpenClaw",
    ),
    lines=(
        # It is in the last paragraph: files that are quoted come before it.
        (
            r"Runtime: agent=[^|\n]+(?: \| [A-Za-z_]+=(?:[^|\n ]| (?!\|))*+){3,30}"
            r"(?:\n[^\n]++){0,4}\s*\Z"
        ),
        _INTRODUCTION + r'\{\s*"schema": ?"openclaw\.inbound_meta\.',
    ),
)

_INBOUND = re.compile(rf"{_INTRODUCTION}(?P<json>[\s\S]*?\n)```[ \t]*\r?(?:\n|\Z)")
_METADATA = re.compile(
    r"(?P<title>[A-Z][A-Za-z ]* \(untrusted(?: metadata|, for context)\)):\r?\n"
    r"```json\r?\n(?P<json>[\s\S]*?)\r?\n```(?:\r?\n|\Z)(?:\r?\n)?"
)
_CONVERSATION = "Conversation info (untrusted metadata)"
# The key of a member: a quote inside a JSON string has a backslash before it.
_MESSAGE_ID = re.compile(
    r'(?<=[{,\s])"message_id(?:_full)?"\s*:\s*'
    r'(?:"(?P<text>(?:[^"\\\n]|\\.)*)"|(?P<number>-?\d+))(?=\s*[,}])'
)
_ANY_ID = "0"
# Zone names as Intl gives them for en-US: UTC, EST, GMT+1, GMT+5:30, or none.
_STAMP = re.compile(
    r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d{2}-\d{2} \d{2}:\d{2}(?::\d{2})?"
    r"(?: (?:[A-Z]{2,5}|GMT[+-]\d{1,2}(?::\d{2})?))?\] "
)
_STAMP_BEGINS = re.compile(rb"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d{2}-\d{2} ")
# A message of its own, after which cacheproxy's notes for the model may stand.
_CONTEXT = re.compile(
    r"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n[\s\S]*\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    r"(?:\n\n<system-reminder>\n(?:(?!\n</system-reminder>)[\s\S])*\n</system-reminder>)*"
)
_SAID = ("type", "role", "name", "tool_calls", "tool_call_id", "call_id", "arguments", "output")
_THOUGHTS = ("thinking", "redacted_thinking")
_RUNTIME = re.compile(r"(?m)^Runtime: (?:[a-z_]+=[^|\n]* \| )+sessionId=(?P<id>[\w.:-]+)")

_Found = tuple[tuple[str | int, ...], str]


def _texts(body: Any, places: tuple[str, ...]) -> list[_Found]:
    """Return the texts at ``places`` with their paths, in the order of the messages."""
    found = (match for place in places for match in match_paths(body, place))
    texts = [(path, text) for path, text in found if isinstance(text, str)]
    return sorted(texts, key=_place) if len(texts) > 1 else texts


def _place(found: _Found) -> tuple[bool, tuple[str | int, ...]]:
    """Return the sort key of a text: texts outside the messages come before them."""
    return found[0][0] in ("messages", "input"), found[0]


def _user_texts(body: Any) -> list[_Found]:
    """Return the first text of each user message, the only one that the client edits."""
    first: dict[tuple[str | int, ...], _Found] = {}
    for path, text in _texts(body, USER_TEXT):
        first.setdefault(path[:2], (path, text))
    return list(first.values())


def _metadata(text: str) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the spans of JSON in the metadata blocks that begin ``text``, and the blocks' end.

    The spans are by title. The client writes each title once: a second one is the user's text.
    """
    blocks: dict[str, tuple[int, int]] = {}
    end = 0
    while (found := _METADATA.match(text, end)) and found["title"] not in blocks:
        blocks[found["title"]] = found.span("json")
        end = found.end()
    return blocks, end


def _inbound(text: str) -> tuple[int, int] | None:
    """Return the span of the JSON under the heading in ``text``, None if there is none.

    The first such heading counts, since the client writes one; a later one is a file's.
    """
    at = next(lines_outside_code(text, _HEADING), None)
    found = _INBOUND.match(text, at) if at is not None else None
    return found.span("json") if found is not None else None


def _stamp(text: str) -> re.Match[str] | None:
    """Return the match of the timestamp after the metadata, None if there is none."""
    _, start = _metadata(text)
    return _STAMP.match(text, start)


def _is_said(text: str) -> bool:
    """Return whether ``text`` is more than blanks and a rule's notes: a user's text."""
    text = text.lstrip()
    return bool(text) and not text.startswith("<system-reminder>\n")


@quick
def _timestamps(request: Request, _previous: Request | None) -> Iterator[Edit]:
    """Remove the timestamps, which the history repeats, rewrites or leaves out.

    A text with two of them in a row is not edited: OpenClaw never writes two, so the user has typed
    one; and a second pass must not find one that the first has left.
    """
    if not request.literals.match(_STAMP_BEGINS):
        return  # without parsing any JSON
    for path, text in _user_texts(request.json):
        found = _stamp(text)
        if found is None or not _is_said(text[found.end() :]):
            continue
        if _stamp(text[: found.start()] + text[found.end() :]) is None:
            yield Edit(to_pointer(path), "", TIMESTAMP.why, found.span())


@quick
def _system_ids(request: Request, _previous: Request | None) -> Iterator[Edit]:
    """Make the message ids under the heading constant, in the first system text with it."""
    for path, text in _texts(request.json, SYSTEM_TEXT):
        inside = _inbound(text)
        if inside is not None:
            yield from _ids(path, text, inside, MESSAGE_ID.why)
            return


@quick
def _user_ids(request: Request, _previous: Request | None) -> Iterator[Edit]:
    """Make the message ids in the metadata of each user message constant."""
    for path, text in _user_texts(request.json):
        blocks, _ = _metadata(text)
        if _CONVERSATION in blocks:
            yield from _ids(path, text, blocks[_CONVERSATION], USER_MESSAGE_ID.why)


def _ids(
    path: tuple[str | int, ...], text: str, inside: tuple[int, int], why: str
) -> Iterator[Edit]:
    """Yield an edit to 0 for each message id in the span ``inside``: "0" for a string."""
    for found in _MESSAGE_ID.finditer(text, *inside):
        group = "text" if found["text"] is not None else "number"
        if found[group] != _ANY_ID:
            yield Edit(to_pointer(path), _ANY_ID, why, found.span(group))


@quick
def _contexts(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Put the contexts with which earlier requests ended back into their places.

    Only the unchanged part of the history is edited: after the first change none is put back.
    """
    (name, ours), (_, theirs) = messages_of(request), messages_of(previous)
    at = 0
    for message in theirs if any(map(_is_context, ours)) else ():
        if at == len(ours):
            return
        if _is_same(message, ours[at]):
            at += 1
        elif _is_context(message):
            yield Edit(f"/{name}/{at}", message, KEEP_CONTEXT.why, adds=True)
        else:
            return


def _is_context(message: dict[str, Any]) -> bool:
    """Return whether ``message`` is a user's with an internal context (and notes) alone."""
    if message.get("role") != "user":
        return False
    found = [block.get("text") for block in _blocks(message) if isinstance(block, dict)]
    texts = [text for text in found if isinstance(text, str)]
    return texts == found and bool(_CONTEXT.fullmatch("\n\n".join(texts)))


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two messages are equal; thinking and cache breakpoints are ignored.

    Two system messages are always equal: a later rule pins the date in them.
    """
    if one is other or one.get("role") != other.get("role"):
        return one is other
    if one.get("role") in ("system", "developer"):
        return True
    return all(one.get(key) == other.get(key) for key in _SAID) and _blocks(one) == _blocks(other)


def _blocks(message: dict[str, Any]) -> list[Any]:
    """Return the blocks of a message's content, without thinking."""
    return [
        block
        for block in blocks_of(message.get("content"))
        if not isinstance(block, dict) or block.get("type") not in _THOUGHTS
    ]


TIMESTAMP = CodeRule(
    name="openclaw-timestamp",
    why="timestamp before the user's text removed",
    find=_timestamps,  # searches for all weekdays at once; as literals they would be seven searches
)
MESSAGE_ID = CodeRule(
    name="openclaw-message-id",
    why="message id in system text made constant",
    find=_system_ids,
    literals=("message_id",),
)
USER_MESSAGE_ID = CodeRule(
    name="openclaw-user-message-id",
    why="message id in the metadata of a user message made constant",
    find=_user_ids,
    literals=("message_id",),
)
KEEP_CONTEXT = CodeRule(
    name="openclaw-keep-context",
    why="internal context kept where it stood in earlier turns",
    find=_contexts,
    default=False,
    literals=("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",),
    needs_previous=True,
)
PIN_CURRENT_DATE = Rule(
    name="openclaw-pin-current-date",
    where=SYSTEM_TEXT,
    pattern=r"(?m)^## Temporal Context\nCurrent date: (?P<volatile>[^\n]+)$",
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("Current date: ",),
)
# Timestamps come first: after one is removed, the text starts with the metadata behind it.
# Contexts come before the date: a pin recognises its notes by the places of messages.
RULES: tuple[Rule | CodeRule, ...] = (
    TIMESTAMP,
    MESSAGE_ID,
    USER_MESSAGE_ID,
    KEEP_CONTEXT,
    PIN_CURRENT_DATE,
)


@hookimpl
@quick
def cacheproxy_session(request: Request) -> str | None:
    """Return ``openclaw/<id>`` from the Runtime line of the system text or first user message.

    The last such line counts, because OpenClaw appends it; a file that it quotes comes before.
    After /compact it is in a later text block of that message than the user's own.
    """
    if "sessionId=" not in request.literals:
        return None
    users = _texts(request.json, USER_TEXT)
    first = [found for found in users if found[0][:2] == users[0][0][:2]]
    for _, text in (*_texts(request.json, SYSTEM_TEXT), *reversed(first)):
        ids = [found["id"] for found in _RUNTIME.finditer(text)] if "sessionId=" in text else []
        if ids:
            return f"openclaw/{ids[-1]}"
    return None
