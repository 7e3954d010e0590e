"""Where system text and user text stand, in every dialect: path patterns for rules.

Sources: Anthropic Messages, OpenAI Chat Completions and Responses, Ollama /api/chat.
"""

from __future__ import annotations

from typing import Any

_SYSTEM = "[role=system|developer]"
_USER = "[role=user]"

SYSTEM_HEAD = (
    "/system",
    "/system/0[type=text]/text",
    f"/messages/0{_SYSTEM}/content",
    f"/messages/0{_SYSTEM}/content/0[type=text]/text",
    "/instructions",
    f"/input/0{_SYSTEM}/content",
    f"/input/0{_SYSTEM}/content/0[type=input_text|text]/text",
)
"""The text a prompt starts with: system string, first block, first system message."""

SYSTEM_TEXT = (
    "/system",
    "/system/*[type=text]/text",
    f"/messages/*{_SYSTEM}/content",
    f"/messages/*{_SYSTEM}/content/*[type=text]/text",
    "/instructions",
    f"/input/*{_SYSTEM}/content",
    f"/input/*{_SYSTEM}/content/*[type=input_text|text]/text",
)
"""All text of the system or developer role."""

USER_TEXT = (
    f"/messages/*{_USER}/content",
    f"/messages/*{_USER}/content/*[type=text]/text",
    "/input",
    f"/input/*{_USER}/content",
    f"/input/*{_USER}/content/*[type=input_text|text]/text",
)
"""Text of the user role. Tool results are blocks of another type or role, so never here."""

WITH_USER_TEXT: tuple[dict[str, Any], ...] = tuple(
    {name: [{"role": "user", "content": content}]}
    for name, kind in (("messages", "text"), ("input", "input_text"))
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
