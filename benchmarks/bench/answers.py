"""What the upstream answers: one JSON message with a usage, and the events of a stream.

The shapes are those of the Anthropic Messages API.
"""

from __future__ import annotations

import json
import re
from typing import Any

USAGE = {
    "input_tokens": 57,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 20_480,
    "output_tokens": 12,
}
_MESSAGE: dict[str, Any] = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "local-model",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": USAGE,
}
STAMP = re.compile(rb'"text":"(\d{19})"')
"""Finds the nanoseconds (time.perf_counter_ns) at which an event was sent."""


def event(kind: str, **more: object) -> bytes:
    value = json.dumps({"type": kind, **more}, separators=(",", ":"))
    return f"event: {kind}\ndata: {value}\n\n".encode()


def delta(text: str) -> bytes:
    """A piece of text; about 130 bytes with 19 characters of it."""
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


ANSWER = json.dumps(
    {
        **_MESSAGE,
        "content": [{"type": "text", "text": "Dusu petip kede petu visile. " * 8}],
        "stop_reason": "end_turn",
    }
).encode()
START = event("message_start", message=_MESSAGE) + event(
    "content_block_start", index=0, content_block={"type": "text", "text": ""}
)
END = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 12})
    + event("message_stop")
)


def stamped(nanoseconds: int) -> bytes:
    return delta(f"{nanoseconds:019d}")


FLOOD = delta("dusu petip kede pet")
"""The event of a stream as fast as possible."""
NEEDLE = b"content_block_delta\n"
"""Stands once in every delta."""


def chunk(data: bytes) -> bytes:
    """``data`` as one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def stream_text(events: int) -> bytes:
    """The whole text of a stream of ``events`` deltas as fast as possible."""
    return START + FLOOD * events + END
