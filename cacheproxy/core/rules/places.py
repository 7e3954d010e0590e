"""Places of system text and user text in every dialect: path patterns for rules.

Sources: Anthropic Messages, OpenAI Chat Completions and Responses, Ollama /api/chat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.dialects import DIALECTS

_SYSTEM = "[role=system|developer]"
_USER = "[role=user]"


def _of(role: str, number: str) -> Iterator[str]:
    """Yield the places of texts in messages of ``role``, in every dialect.

    ``number``: index of the messages among all, or ``*``.
    """
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
"""Text at the start of a prompt: system string, first block, first system message."""

SYSTEM_TEXT = tuple(dict.fromkeys(_of(_SYSTEM, "*")))
"""All text of the system or developer role."""

USER_TEXT = tuple(dict.fromkeys(_of(_USER, "*")))
"""Text of the user role. Tool results are not among it: their blocks have another type or role."""

WITH_USER_TEXT: tuple[dict[str, Any], ...] = tuple(
    {items: [{"role": "user", "content": content}]}
    for items, kind in dict.fromkeys(
        (each.items, each.text_types[0]) for each in DIALECTS if each.items and each.is_proxied
    )
    for content in ("x", [{"type": kind, "text": "x"}])
)
"""The shortest requests with a user's text, one for each dialect and form of content."""

FIRST_USER_TEXT = tuple(
    place.replace("/*[", f"/{number}[", 1)
    for number in (0, 1)
    for place in USER_TEXT
    if "/*[" in place
)
"""User text of the first two messages: the first may be system text."""

NAMED = {"system-head": SYSTEM_HEAD, "system": SYSTEM_TEXT, "user": USER_TEXT}
"""Names that a rule may use instead of patterns."""
