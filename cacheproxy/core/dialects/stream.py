"""Common parts of all APIs' answers, as streams of server-sent events and as whole bodies."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cacheproxy.core.document.edits import encode

_Json = dict[str, Any]
COMMENT = b": keep-alive\n\n"
"""A comment, which any stream may carry against timeouts: a line that begins with a colon (HTML
Standard, section 9.2.6)."""
CUT = "the server's answer ended before it was complete"
"""Message for an answer without its end."""
Whole = Generator[None, _Json | None, _Json]
"""Generator that makes a whole body from a stream: the data of each event is sent to it as it
comes, then None, on which it returns the body. Raises ValueError for events that make none."""


def event(value: _Json, *, named: bool = True) -> bytes:
    """Return ``value`` as an event; ``named``: named by its ``type``, which it must have then."""
    name = f"event: {value['type']}\n" if named else ""
    return f"{name}data: {encode(value)}\n\n".encode()


def is_error(value: Any) -> bool:
    """Whether a JSON answer or event is an error: OpenAI's shape, Anthropic's, vLLM's older one."""
    return isinstance(value, dict) and (
        value.get("error") is not None
        or value.get("object") == "error"
        or value.get("type") == "error"
    )
