"""Reasoning in an API: how it is read from an answer, and how it is put back into a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheproxy.core.dialects.content import blocks_of
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit

_Json = dict[str, Any]
REASONING = ("reasoning_content", "reasoning")
"""Members that hold an assistant's reasoning: llama.cpp's, SGLang's, DeepSeek's; vLLM's."""
_BLOCKS = ("thinking", "redacted_thinking")
_SIGNED = 64
"""Characters from which a signature is a vendor's: local servers leave it empty, or count."""


@dataclass(slots=True)
class ReadAnswer:
    """An answer as far as it was read."""

    name: str = ""  #: of the member that the reasoning came as
    text: list[str] = field(default_factory=list)  #: pieces of what it says
    reasoning: list[str] = field(default_factory=list)  #: pieces of its reasoning
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """The tool calls that came whole: each tool's name and the arguments."""
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """name and arguments of each tool call that comes in pieces, by its index"""

    def called(self, index: Any, name: Any, arguments: Any) -> None:
        """Take a piece of a call: its name comes once, its arguments bit by bit."""
        call = self.pieces.setdefault(str(index), ["", ""])
        for place, piece in enumerate((name, arguments)):
            if isinstance(piece, str):
                call[place] += piece


class Reasoning(NamedTuple):
    """What an API's value knows of it. What reads raises ValueError where nothing can be known."""

    read: Callable[[ReadAnswer, _Json], None]  #: takes a whole answer
    read_event: Callable[[ReadAnswer, _Json], None]  #: takes one event of a stream
    put: Callable[[Document, int, str, str, str], tuple[Edit, list[Splice]] | None]
    """Puts reasoning into the message of a number: the name of its member ("": the usual), its
    JSON text, and why; returns the edit and what that changes in the body, None where there is no
    place for it."""


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
