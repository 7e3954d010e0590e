"""Reasoning in a message: whether it has any, and the type of functions that put it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproxy.core.dialects.content import blocks_of
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit

_Json = dict[str, Any]
REASONING = ("reasoning_content", "reasoning")
"""Members with an assistant's reasoning: of llama.cpp, SGLang and DeepSeek; of vLLM."""
_SIGNED = 64
"""Characters of a vendor's signature at least: local servers leave it empty, or put a count."""


Putting = Callable[[Document, int, str, str, str], tuple[Edit, list[Splice]] | None]
"""Function that puts reasoning into a message: of the document, the message's index, the name of
the reasoning's member ("": the usual), its JSON text, and the edit's reason. Returns the edit and
its splices, None if the message has no place for reasoning."""


def is_signed(block: _Json) -> bool:
    """Whether a vendor signed this ``thinking`` block, so that nobody else can make its like."""
    signature = block.get("signature")
    return isinstance(signature, str) and len(signature) >= _SIGNED


def has_reasoning(message: _Json, *, signed: bool = True) -> bool:
    """Whether the model's ``message`` has reasoning; ``signed``: whether a vendor's counts."""
    if any(isinstance(message.get(name), str) and message[name].strip() for name in REASONING):
        return True
    return any(
        signed or (block.get("type") == "thinking" and not is_signed(block))
        for block in blocks_of(message.get("content"))
        if isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")
    )
