"""Where system text and user text stand, in every dialect: path patterns for rules.

Sources: Anthropic Messages, OpenAI Chat Completions and Responses, Ollama /api/chat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.dialects import DIALECTS

_SYSTEM = "[role=system|developer]"
_USER = "[role=user]"


def _of(role: str, number: str) -> Iterator[str]:
    """Yield where messages of ``role`` have their texts, in every dialect: those of ``number``."""
    block = "0" if number == "0" and role == _SYSTEM else "*"
    for each in DIALECTS:
        if not each.items or not each.is_proxied:
            continue
        types, content = "|".join(each.text_types), f"/{each.items}/{number}{role}/content"
        if role == _SYSTEM and each.head:
            yield from (f"/{each.head}", f"/{each.head}/{block}[type={types}]/text")
        if role == _USER and each.is_text:
            yield f"/{each.items}"
        yield from (content, f"{content}/{block}[type={types}]/text")


SYSTEM_HEAD = tuple(dict.fromkeys(_of(_SYSTEM, "0")))
"""The text a prompt starts with: system string, first block, first system message."""

SYSTEM_TEXT = tuple(dict.fromkeys(_of(_SYSTEM, "*")))
"""All text of the system or developer role."""

USER_TEXT = tuple(dict.fromkeys(_of(_USER, "*")))
"""Text of the user role. Tool results are blocks of another type or role, so never here."""

WITH_USER_TEXT: tuple[dict[str, Any], ...] = tuple(
    {items: [{"role": "user", "content": content}]}
    for items, kind in dict.fromkeys(
        (each.items, each.text_types[0]) for each in DIALECTS if each.items and each.is_proxied
    )
    for content in ("x", [{"type": kind, "text": "x"}])
)
"""The shortest requests in which a user says something, in each way."""

FIRST_USER_TEXT = tuple(
    place.replace("/*[", f"/{number}[", 1)
    for number in (0, 1)
    for place in USER_TEXT
    if "/*[" in place
)
"""Text of the first message, or of the second if the first is system text: if it is a user's."""

NAMED = {"system-head": SYSTEM_HEAD, "system": SYSTEM_TEXT, "user": USER_TEXT}
"""Names a rule may use instead of patterns."""
