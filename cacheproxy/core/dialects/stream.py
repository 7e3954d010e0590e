"""Answers as streams of server-sent events, and as whole bodies: what the APIs have in common."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cacheproxy.core.document.edits import encode

_Json = dict[str, Any]
COMMENT = b": keep-alive\n\n"
"""What any stream may carry and means nothing. HTML Standard, section 9.2.6: a line that begins
with a colon is a comment, against timeouts."""
CUT = "the server's answer ended before it was complete"
"""What is said of an answer without its end."""
Whole = Generator[None, _Json | None, _Json]
"""Is sent the data of a stream's events, one by one, and then None: returns the whole body. So the
work is done as the events come. Raises ValueError where they make none."""


def event(value: _Json, *, named: bool = True) -> bytes:
    """Return ``value`` as an event; ``named``: by its member ``type``."""
    name = f"event: {value['type']}\n" if named else ""
    return f"{name}data: {encode(value)}\n\n".encode()


def is_error(value: Any) -> bool:
    """Whether a JSON answer or event is an error: OpenAI's shape, Anthropic's, vLLM's older one."""
    return isinstance(value, dict) and (
        value.get("error") is not None
        or value.get("object") == "error"
        or value.get("type") == "error"
    )
