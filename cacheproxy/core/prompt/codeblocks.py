"""Fenced code in Markdown: quoted text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"(?m)^ {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>[^\n]*)$")


def lines_outside_code(text: str, beginning: str) -> Iterator[int]:
    """Yield where the lines of ``text`` start that begin with ``beginning``, but not in code.

    The text is looked through once, and for code only if there is such a line.
    """
    blocks: Iterator[tuple[int, int]] | None = None
    start = end = 0
    at = text.find(beginning)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            blocks = _blocks(text) if blocks is None else blocks
            while end <= at and start < len(text):
                start, end = next(blocks, (len(text), len(text)))
            if start <= at < end:
                at = text.find(beginning, end)
                continue
            yield at
        at = text.find(beginning, at + 1)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield where fenced code blocks stand, fences included.

    Source: CommonMark 0.31, section 4.5. A fence is closed by one of the same character that is
    as long or longer and has nothing behind it; one that is never closed goes on to the end.
    """
    opened, start = "", 0
    for fence in _FENCE.finditer(text):
        mark, rest = fence["mark"], fence["rest"].strip()
        if not opened:
            # Backticks may not stand in the words behind a fence of backticks, tildes may.
            is_fence = mark[0] == "~" or "`" not in rest
            opened, start = (mark, fence.start()) if is_fence else ("", 0)
        elif mark.startswith(opened) and not rest:
            yield start, fence.end()
            opened = ""
    if opened:
        yield start, len(text)
