"""Repairs of a history: calls without results, results without calls, roles that do not alternate.

Each repair takes all messages and returns them; those that it changes are new objects. Text of
users and tools stays as it is; words of ours are in brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_not
from typing import Any, NamedTuple

from cacheproxy.core.dialects.content import SYSTEM_ROLES, Call, calls_in, is_text
from cacheproxy.core.dialects.dialect import Dialect, Json
from cacheproxy.core.prompt.reminder import has_text, merged

NO_RESULT = "(No result was recorded.)"
NO_CALL = "(The result of a tool whose call is not shown:)"
NO_ANSWER = "(No answer was recorded.)"
EMPTY = "(empty)"


class HistoryItem(NamedTuple):
    """A message of the history."""

    number: int | None  #: its index in the client's request; None for an added one
    value: Json  #: the message itself, never altered


Repair = Callable[[list[HistoryItem], Dialect], list[HistoryItem]]
"""Function that returns the repaired messages; an unchanged one is the same object."""


def without_lone_results(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with each result without a call before it as a user's text."""
    known: set[Any] = set()
    found = []
    for item in items:
        value = item.value
        content = value.get("content")
        if is_result(value):
            if _id(value) is not None and _id(value) not in known:
                result = value.get("output", content)
                shown = [NO_CALL, *([result] if isinstance(result, str | list) else ())]
                value = said(dialect, "user", shown)
        elif isinstance(content, list):
            blocks: list[Any] = []
            for block in content:
                lone = _id(block) is not None and _id(block) not in known
                blocks += _shown(block) if lone else (block,)
            if len(blocks) != len(content) or any(map(is_not, blocks, content)):
                value = value | {"content": blocks}
        known.update(call.id for call in calls_in(value) if isinstance(call.id, str))
        found.append(item if value is item.value else HistoryItem(item.number, value))
    return found


def with_all_results(items: list[HistoryItem], _: Dialect) -> list[HistoryItem]:
    """Return ``items`` with a result for each call without one, behind those of its turn."""
    answered = {_id(one) for item in items for one in (item.value, *_blocks(item.value))}
    found: list[HistoryItem] = []
    waiting: list[Call] = []  # their results go before the next message
    for item in items:
        value = item.value
        goes_on = is_result(value) or value.get("type") in ("function_call", "reasoning")
        if waiting and not goes_on:
            results = [_result(call) for call in waiting]
            if value.get("role") == "user" and results[0].get("type") == "tool_result":
                value = _with_results(value, results)
            else:
                found += _added(results)
            waiting = []
        waiting += (
            one for one in calls_in(value) if isinstance(one.id, str) and one.id not in answered
        )
        found.append(item if value is item.value else HistoryItem(item.number, value))
    if waiting:
        found += _added([_result(call) for call in waiting])
    return found


def in_turns(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with an answer between each tool's result and user message behind it."""
    found: list[HistoryItem] = []
    behind = False
    for item in items:
        value = item.value
        blocks = _blocks(value)
        count = sum(map(is_result, blocks))
        own = item
        if value.get("role") == "user":
            answer = HistoryItem(None, said(dialect, "assistant", [NO_ANSWER]))
            if behind and not count:
                found.append(answer)
            if count and not is_result(blocks[-1]):
                results = [block for block in blocks if is_result(block)]
                rest = [block for block in blocks if not is_result(block)]
                found += HistoryItem(item.number, value | {"content": results}), answer
                own = HistoryItem(None, value | {"content": rest})
        if value.get("role") not in SYSTEM_ROLES:
            behind = is_result(value) or bool(count and is_result(blocks[-1]))
        found.append(own)
    return found


def with_joined_answers(items: list[HistoryItem], _: Dialect) -> list[HistoryItem]:
    """Return ``items`` with assistant messages in a row joined into the last, up to a call."""
    found: list[HistoryItem] = []
    for item in items:
        value = item.value
        before = found[-1].value if found else {}
        if is_answer(value) and is_answer(before) and not calls_in(before):
            contents = [one.get("content") for one in (before, value)]
            there = [one for one in contents if isinstance(one, str | list) and one]
            found[-1] = HistoryItem(item.number, value | {"content": merged(there or [""])})
        else:
            found.append(item)
    return found


def with_words(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with empty messages without calls marked as such; empty texts leave."""
    found = []
    for item in items:
        value, content = item.value, item.value.get("content")
        if value.get("role") not in ("user", "assistant") or value.get("tool_calls"):
            pass
        elif not has_text(content):
            role = str(value["role"])
            value = value | {"content": said(dialect, role, [EMPTY])["content"]}
        elif isinstance(content, list) and any(map(_is_empty, content)):
            blocks = [block for block in content if not _is_empty(block)]
            value = value | {"content": blocks}
        found.append(item if value is item.value else HistoryItem(item.number, value))
    return found


def is_result(value: Any) -> bool:
    """Whether ``value``, a message or a block, is a tool's result."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return kind in ("function_call_output", "tool_result") or value.get("role") == "tool"


def is_answer(value: Json) -> bool:
    """Whether ``value`` is an assistant message."""
    return value.get("role") == "assistant" and value.get("type", "message") == "message"


def said(dialect: Dialect, role: str, texts: list[Any]) -> Json:
    """Return a message of ``role`` with ``texts``: texts or lists of blocks."""
    kind = dialect.text_types[0]
    if kind == "text":
        return {"role": role, "content": merged(texts)}
    kind = "output_text" if role == "assistant" else kind
    blocks: list[Any] = []
    for one in texts:
        blocks += [{"type": kind, "text": one}] if isinstance(one, str) else one
    return {"type": "message", "role": role, "content": blocks}


def _id(value: Any) -> str | None:
    """Return the id of the call whose result ``value`` is, None for none."""
    if not is_result(value):
        return None
    names = ("call_id", "tool_use_id", "tool_call_id")
    return next((value[name] for name in names if isinstance(value.get(name), str)), None)


def _blocks(value: Json) -> list[Any]:
    content = value.get("content")
    return content if isinstance(content, list) else []


def _shown(block: Json) -> Iterator[Any]:
    """Yield the blocks of a user message that show ``block``, part of a result."""
    yield {"type": "text", "text": NO_CALL}
    content = block.get("content")
    if isinstance(content, list):
        yield from content
    elif content:
        yield {"type": "text", "text": content}


def _is_empty(block: Any) -> bool:
    return is_text(block) and not block["text"].strip()


def _result(call: Call) -> Json:
    if "content" in call.path:
        return {"type": "tool_result", "tool_use_id": call.id, "content": NO_RESULT}
    if "tool_calls" in call.path:
        return {"role": "tool", "tool_call_id": call.id, "content": NO_RESULT}
    return {"type": "function_call_output", "call_id": call.id, "output": NO_RESULT}


def _added(results: list[Json]) -> list[HistoryItem]:
    if results[0].get("type") == "tool_result":
        return [HistoryItem(None, {"role": "user", "content": results})]
    return [HistoryItem(None, one) for one in results]


def _with_results(value: Json, results: list[Json]) -> Json:
    """Return a user message with ``results`` behind the results at its beginning."""
    content = value.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    count = next((at for at, one in enumerate(blocks) if not is_result(one)), len(blocks))
    return value | {"content": [*blocks[:count], *results, *blocks[count:]]}
