"""Reasoning in a message: whether it has any, and how it is put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproxy.core.dialects.content import blocks_of
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit

_Json = dict[str, Any]
REASONING = ("reasoning_content", "reasoning")
"""Members that hold an assistant's reasoning: llama.cpp's, SGLang's, DeepSeek's; vLLM's."""
_BLOCKS = ("thinking", "redacted_thinking")
_SIGNED = 64
"""Characters from which a signature is a vendor's: local servers leave it empty, or count."""


Putting = Callable[[Document, int, str, str, str], tuple[Edit, list[Splice]] | None]
"""Puts reasoning into the message of a number: the name of its member ("": the usual), its JSON
text, and why; returns the edit and what that changes in the body, None where there is no place for
it."""


def is_signed(block: _Json) -> bool:
    """Whether a vendor signed this ``thinking`` block: nobody else can make one like it."""
    signature = block.get("signature")
    return isinstance(signature, str) and len(signature) >= _SIGNED


def has_reasoning(message: _Json, *, signed: bool = True) -> bool:
    """Whether the model's ``message`` has reasoning; ``signed``: or a vendor's."""
    if any(isinstance(message.get(name), str) and message[name].strip() for name in REASONING):
        return True
    return any(
        signed or (block.get("type") == "thinking" and not is_signed(block))
        for block in blocks_of(message.get("content"))
        if isinstance(block, dict) and block.get("type") in _BLOCKS
    )
