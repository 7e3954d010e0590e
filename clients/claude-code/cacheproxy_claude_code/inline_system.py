r"""Inline ``role: "system"`` messages, re-roled to the user where they stand.

Claude Code 2.1.197 and later send news (a new date, a tool set, a background task's end) as
system messages inside ``messages``. Some servers hoist these to the head of the prompt, where
each new one is a break; others reject the request. Here each becomes text of the user role,
wrapped in ``<system-reminder>`` as Claude Code wrapped such text before:

- next to a user message it is folded into that message as a text block, at its own place in
  the order, because strict templates want user and assistant in turns. User messages that
  only it held apart are joined for the same reason;
- with none beside it, it becomes a user message itself;
- it never comes between a tool_use and its tool_result: until all results are there it waits,
  and stands after the message that brings the last one. Where no result follows, it is left.

So what becomes of a message depends only on what stands before it (and on the results it has
to wait for, without which no turn is sent): later turns see the same text at the same place.

Left as they are: system messages before the first other message (the prompt's head, hoisted
or not), and those with blocks other than text, which a user message cannot hold. One without
any text is folded into nothing. What else such a message carries (``output_config``) goes, for
a user message has only role and content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cacheproxy import REMOVE, CodeRule, Edit, Request

_OPEN, _CLOSE = "<system-reminder>\n", "\n</system-reminder>"
_WHY = "inline system message given to the user role"


def _find(request: Request, _previous: Request | None) -> Iterator[Edit]:
    messages = (request.json or {}).get("messages")
    if request.dialect != "anthropic" or not isinstance(messages, list):
        return
    index = 0
    while index < len(messages) and _role(messages[index]) == "system":
        index += 1
    open_calls: set[str] = set()
    while index < len(messages):
        end = index
        while end < len(messages) and _can_join(messages[end]):
            end += 1
        yield from _fold(messages, range(index, end), open_calls)
        for message in messages[index : end + 1]:
            if _role(message) == "assistant":
                open_calls = _ids(message, "tool_use", "id")
            open_calls -= _ids(message, "tool_result", "tool_use_id")
        index = end + 1


def _fold(messages: list[Any], run: Sequence[int], open_calls: set[str]) -> Iterator[Edit]:
    """Make one user message of ``run``: neighbours of role user and system, if both are there."""
    users = [index for index in run if _role(messages[index]) == "user"]
    systems = [index for index in run if index not in users]
    texts = [block for index in systems for block in _wrapped(messages[index]["content"])]
    if not systems or not (users or texts) or (open_calls and not users):
        return
    if len(run) == 1:
        yield from _re_role(f"/messages/{run[0]}", messages[run[0]])
        return
    blocks: list[Any] = []
    waiting: list[Any] = []
    for index in run:
        content = messages[index]["content"]
        if index in users:
            blocks += _blocks(content)
            open_calls = open_calls - _ids(messages[index], "tool_result", "tool_use_id")
        else:
            waiting += _wrapped(content)
        if not open_calls:
            blocks += waiting
            waiting = []
    home = (users or systems)[0]
    if len(users) > 1 or texts:
        yield Edit(f"/messages/{home}/content", blocks + waiting, _WHY)
    if not users:
        yield from _become_user(f"/messages/{home}", messages[home])
    for index in run:
        if index != home:
            yield Edit(f"/messages/{index}", REMOVE, _WHY)


def _re_role(pointer: str, message: dict[str, Any]) -> Iterator[Edit]:
    """Turn a message with no user message beside it into one, its text's bytes kept."""
    content = message["content"]
    texts = (
        [(f"{pointer}/content", content)]
        if isinstance(content, str)
        else [(f"{pointer}/content/{i}/text", block["text"]) for i, block in enumerate(content)]
    )
    (first, _), (last, text) = texts[0], texts[-1]
    yield Edit(first, _OPEN, _WHY, (0, 0))
    yield Edit(last, _CLOSE, _WHY, (len(text), len(text)))
    yield from _become_user(pointer, message)


def _become_user(pointer: str, message: dict[str, Any]) -> Iterator[Edit]:
    yield Edit(f"{pointer}/role", "user", _WHY)
    for key in message:
        if key not in ("role", "content"):
            escaped = key.replace("~", "~0").replace("/", "~1")
            yield Edit(f"{pointer}/{escaped}", REMOVE, _WHY)


def _wrapped(content: Any) -> list[Any]:
    """Return the content of a system message as wrapped text blocks; none if it has no text."""
    blocks = _blocks(content)
    if not any(block["text"].strip() for block in blocks):
        return []
    blocks[0] = {**blocks[0], "text": _OPEN + blocks[0]["text"]}
    blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"] + _CLOSE}
    return blocks


def _blocks(content: str | list[Any]) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _can_join(message: Any) -> bool:
    """Whether ``message`` is of the user role, or a system message of text alone."""
    content = message.get("content") if isinstance(message, dict) else None
    if _role(message) == "user":
        return isinstance(content, str | list)
    return _role(message) == "system" and (
        isinstance(content, str)
        or (isinstance(content, list) and all(_is_text(block) for block in content))
    )


def _is_text(block: Any) -> bool:
    is_dict = isinstance(block, dict)
    return is_dict and block.get("type") == "text" and isinstance(block.get("text"), str)


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _ids(message: Any, kind: str, key: str) -> set[str]:
    content = message.get("content") if isinstance(message, dict) else None
    return {
        block[key]
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and block.get("type") == kind and isinstance(block.get(key), str)
    }


SYSTEM_REMINDERS = CodeRule(
    name="claude-system-reminders",
    why=_WHY,
    find=_find,
    default=False,
    literals=('"system"',),
)
