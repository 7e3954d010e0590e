"""Contents that changed between a string and a list of blocks.

Some templates print the two differently. A list whose block has a cache breakpoint does not count:
Claude Code writes the last message that way, breakpoints move, and servers read both forms alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.document.pointer import index_in, parse_pointer
from cacheproxy.core.prompt.request import Request

STRING, LIST = "a string", "a list of blocks"


def form_changes(
    before: Request, after: Request, was_path: str, now_path: str
) -> Iterator[tuple[str, str, str]]:
    """Yield (pointer in the later request, form before, form now).

    The paths lead to a message, or to a system text outside the messages, in each request.
    """
    was, now = value_at(before, was_path), value_at(after, now_path)
    yield from _contents(was, now, now_path, is_message=now_path.count("/") == 2)


def value_at(request: Request, pointer: str) -> Any:
    """Return the JSON value at ``pointer`` (RFC 6901), or None if there is none."""
    value: Any = request.json
    for step in parse_pointer(pointer):
        if isinstance(value, list):
            index = index_in(step, value)
            value = value[index] if index is not None else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _contents(was: Any, now: Any, path: str, *, is_message: bool) -> Iterator[tuple[str, str, str]]:
    if is_message:
        if not (isinstance(was, dict) and isinstance(now, dict)):
            return
        was, now, path = was.get("content"), now.get("content"), f"{path}/content"
    forms = _form(was), _form(now)
    if forms in ((STRING, LIST), (LIST, STRING)):
        yield path, forms[0], forms[1]
    if isinstance(was, list) and isinstance(now, list):
        for index, (one, other) in enumerate(zip(was, now, strict=False)):
            if _is_result(one) and _is_result(other):
                yield from _contents(one, other, f"{path}/{index}", is_message=True)


def _form(content: Any) -> str | None:
    if isinstance(content, str) and content:
        return STRING
    if not isinstance(content, list) or not content:
        return None
    has_breakpoint = any(isinstance(block, dict) and "cache_control" in block for block in content)
    return None if has_breakpoint else LIST


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"
