"""The system text that a prompt opens with, before anything a user wrote."""

from __future__ import annotations

from typing import Any

_SYSTEM = ("system", "developer")
_KINDS = ("text", "input_text")


def opening_of(body: dict[str, Any]) -> list[list[str]]:
    """Return the texts of each place where system text may stand, blank ones left out.

    These are the member ``system`` (Anthropic), ``instructions`` (OpenAI Responses), and the
    messages of role system or developer that come before all others.
    """
    found = [_texts(body[name]) for name in ("system", "instructions") if name in body]
    for name in ("messages", "input"):
        messages = body.get(name)
        texts = []
        for message in messages if isinstance(messages, list) else ():
            if not isinstance(message, dict) or message.get("role") not in _SYSTEM:
                break
            texts += _texts(message.get("content"))
        found.append(texts)
    return [texts for texts in found if texts]


def _texts(content: Any) -> list[str]:
    """Return the texts of a string, or of a list of blocks, that hold anything."""
    if isinstance(content, str):
        return [] if not content or content.isspace() else [content]
    texts = []
    for block in content if isinstance(content, list) else ():
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str) and block.get("type") in _KINDS and text and not text.isspace():
            texts.append(text)
    return texts
