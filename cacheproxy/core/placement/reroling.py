"""A late system message becomes a user message in its place; its text keeps its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.content import is_text
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import to_pointer
from cacheproxy.core.prompt.reminder import BETWEEN, CLOSE, OPEN, is_wrapped

WHY = "late system message sent as a user message, in its place"
"""Why one edit for each message that is placed is made; by it they are counted."""
_MARKED = "marked as a reminder"
_KEPT = frozenset({"role", "content", "type", "id", "status", "images"})
"""What a user message may have, in one of the dialects."""


def re_role(pointer: str, item: dict[str, Any], more: str = "") -> Iterator[Edit]:
    """Turn a message into the user's, its text's bytes kept; ``more`` goes behind its last."""
    content = item["content"]
    texts = (
        [(f"{pointer}/content", content)]
        if isinstance(content, str)
        else [
            (f"{pointer}/content/{number}/text", block["text"])
            for number, block in enumerate(content)
            if is_text(block)
        ]
    )
    if texts:
        opens, closes = OPEN, CLOSE
        last, closing = texts[-1]
        if is_wrapped(texts[0][1], closing):
            opens, closes = "", ""
        if more:
            closes += BETWEEN + more
        if opens:
            yield Edit(texts[0][0], opens, _MARKED, (0, 0))
        if closes:
            yield Edit(last, closes, _MARKED, (len(closing), len(closing)))
    yield from become_user(pointer, item)


def become_user(pointer: str, item: dict[str, Any]) -> Iterator[Edit]:
    """Change the role, and take out what a user message does not have."""
    yield Edit(f"{pointer}/role", "user", WHY)
    for key in item:
        if key not in _KEPT:
            yield Edit(pointer + to_pointer((key,)), REMOVE, "which no user message has")
