"""Reminders: message texts in the mark of text that the user did not write.

The mark is Claude Code's own inside a user message, ``<system-reminder>``. Content is a text, or a
list of blocks (Anthropic Messages, OpenAI Chat Completions and Responses).
"""

from __future__ import annotations

import re
from typing import Any

from cacheproxy.core.dialects.content import blocks_of, is_text, texts_in

OPEN, CLOSE = "<system-reminder>\n", "\n</system-reminder>"
_MARK = r"[\s/\x00-\x1f]*system[\s_-]*reminder"
_LIKE_A_MARK = re.compile(rf"<(?={_MARK})|&(?=(?:amp;)*lt;{_MARK})", re.IGNORECASE)
BETWEEN = "\n\n"
"""Separator of texts of several messages in one."""


def inside(text: str) -> str:
    """Return ``text`` for use inside the mark: marks in it are escaped, as in HTML.

    Thus nothing in it ends the mark or looks like another one. Different texts stay different.
    """
    return _LIKE_A_MARK.sub(lambda one: "&lt;" if one[0] == "<" else "&amp;", text)


def wrapped(text: str) -> str:
    """Return ``text`` in the mark; itself if it is already."""
    return text if is_wrapped(text, text) else f"{OPEN}{text}{CLOSE}"


def is_wrapped(opening: str, closing: str) -> bool:
    """Whether texts from ``opening`` to ``closing`` are in the mark."""
    return opening.startswith(OPEN.strip()) and closing.rstrip().endswith(CLOSE.strip())


def wrapped_blocks(content: list[Any]) -> list[Any]:
    """Return ``content`` with its first and its last text in the mark; other blocks stay."""
    blocks = list(content)
    texts = [number for number, block in enumerate(blocks) if is_text(block)]
    if texts and not is_wrapped(blocks[texts[0]]["text"], blocks[texts[-1]]["text"]):
        for number, before, behind in ((texts[0], OPEN, ""), (texts[-1], "", CLOSE)):
            block = blocks[number]
            blocks[number] = {**block, "text": before + block["text"] + behind}
    return blocks


def merged(contents: list[Any]) -> Any:
    """Return the contents of several messages as one content, with adjacent texts joined."""
    if all(isinstance(content, str) for content in contents):
        return BETWEEN.join(contents)
    given = (block for content in contents if isinstance(content, list) for block in content)
    kind = next((block["type"] for block in given if is_text(block)), "text")
    blocks: list[Any] = []
    for content in contents:
        own = [{"type": kind, "text": content}] if isinstance(content, str) else list(content)
        if blocks and own and is_text(blocks[-1]) and is_text(own[0]):
            text = blocks[-1]["text"] + BETWEEN + own.pop(0)["text"]
            blocks[-1] = {**blocks[-1], "text": text}
        blocks += own
    return blocks


def text_in(content: Any) -> str:
    """Return all text in ``content``, its blocks separated by newlines."""
    return "\n".join(texts_in(content))


def has_text(content: Any) -> bool:
    """Whether ``content`` has more than empty text."""
    return any(not is_text(block) or block["text"].strip() for block in blocks_of(content))


def is_all_text(content: Any) -> bool:
    """Whether ``content`` is nothing but text."""
    return isinstance(content, str) or all(map(is_text, content))
