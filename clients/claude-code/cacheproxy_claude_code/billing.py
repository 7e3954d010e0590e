r"""The attribution block: ``x-anthropic-billing-header: key=value; key=value;``.

Claude Code puts it before everything else in the prompt. Keys seen in its requests (2.1.36 to
2.1.329) and in public descriptions of them: cc_version with a suffix that depends on the first
user message, cc_entrypoint, cch (five hex digits, which differ in each request; or absent),
cc_prev_req, cc_prompt_id, cc_prompt_index, cc_turn_index, cc_turn_origin, cc_is_subagent,
cc_workload, cc_request_class. Pairs are on one line, joined by one space. Since further keys may
come, pairs are recognised by their form alone, up to the first text that is no pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cacheproxy import REMOVE, SYSTEM_HEAD, CodeRule, Edit, Request, Rule, quick

LITERAL = "x-anthropic-billing-header:"
CONSTANT = f"{LITERAL} cc_version=0;"
"""Replacement of the header. It is a header itself, for servers that look for one to drop it."""

_PAIR = r"[ \t]*[A-Za-z][\w.-]*=[^\s;]*;"
# The last pair may lack its semicolon if its key begins with cc: "x=1" may be the prompt's own.
_LAST_PAIR = r"[ \t]*cc[a-z_]*=[^\s;]*(?=[\r\n]|\Z)"
_HEADER = rf"{LITERAL}(?:(?:{_PAIR})+(?:{_LAST_PAIR})?|{_LAST_PAIR})"
_LEADING_HEADERS = re.compile(rf"(?:\s*{_HEADER})+\s*")

BILLING_HEADER = Rule(
    name="claude-billing-header",
    where=SYSTEM_HEAD,
    pattern=rf"\A\s*(?P<volatile>{_HEADER})",
    replacement=CONSTANT,
    why="attribution header made constant",
    literals=(LITERAL,),
)


@quick
def _drop(request: Request, _previous: Request | None) -> Iterator[Edit]:
    """Remove the header, and space around it, from the start of the prompt.

    Several headers in a row are all removed, else a second pass would find the next one. A block, a
    message or the member ``system`` with nothing else in it is removed as a whole. A list of
    messages is never emptied.
    """
    body = request.json or {}
    for name in ("system", "instructions"):
        edits, is_empty = _cut(f"/{name}", body.get(name))
        yield from [Edit(f"/{name}", REMOVE, _WHY)] if is_empty else edits
    for name in ("messages", "input"):
        yield from _drop_from_messages(name, body.get(name))


def _drop_from_messages(name: str, messages: Any) -> list[Edit]:
    """Return the edits of the system messages at the start; [] if no message would be left."""
    found: list[Edit] = []
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "developer"):
            return found
        edits, is_empty = _cut(f"/{name}/{index}/content", message.get("content"))
        if not is_empty:
            return found + edits
        found.append(Edit(f"/{name}/{index}", REMOVE, _WHY))
    return []


def _cut(pointer: str, content: Any) -> tuple[list[Edit], bool]:
    """Return the edits that remove the header from ``content``, and whether it is then empty."""
    if isinstance(content, str):
        end = _header_end(content)
        edits = [Edit(pointer, "", _WHY, (0, end))] if end else []
        return edits, 0 < end == len(content)
    found: list[Edit] = []
    for index, block in enumerate(content if isinstance(content, list) else ()):
        is_text = isinstance(block, dict) and block.get("type") in ("text", "input_text")
        text = block.get("text") if is_text else None
        edits, is_empty = _cut(f"{pointer}/{index}/text", text if isinstance(text, str) else None)
        if not is_empty:
            return found + edits, False
        found.append(Edit(f"{pointer}/{index}", REMOVE, _WHY))
    return found, bool(found)


def _header_end(text: str) -> int:
    """Return the end of the headers that begin ``text``, 0 if none do."""
    found = _LEADING_HEADERS.match(text)
    return found.end() if found else 0


_WHY = "attribution header dropped"

DROP_BILLING_HEADER = CodeRule(
    name="claude-drop-billing-header",
    why=_WHY,
    find=_drop,
    default=False,
    literals=(LITERAL,),
)
