"""Whether an error answer says that the server cannot take the order or roles of the messages.

Templates raise such errors while the prompt is rendered, before anything is evaluated. Words of:
Qwen3.5 and Ministral ("System message must be at the beginning."), Mistral and Gemma
("conversation roles must alternate user/assistant/…"), Mistral-Small ("Only user, assistant and
tool roles are supported, got system."), Qwen and Apertus ("Unexpected message role.", "Invalid
role: system"), Mistral's of September 2024 on ("Tool call IDs should be alphanumeric strings with
length 9!"), pydantic's literal checks ("Input should be 'user' or 'assistant'").
"""

from __future__ import annotations

import re

STATUSES = frozenset({400, 404, 422, 500})
"""How servers answer when a template raises: llama-server and vLLM 400, mlx-lm 404, others 500."""
LARGEST = 64 << 10
"""Bytes of an error answer that are looked at."""

_ORDER = re.compile(
    rb"system (?:message|role|prompt)s?\b.{0,80}"
    rb"\b(?:beginning|first|start|only|once|multiple|support|allow|expect)",
    re.IGNORECASE | re.DOTALL,
)
_ROLE = re.compile(
    rb"\b(?:only|unexpected|unknown|invalid|unsupported|unrecognized|expected)\b.{0,80}\brole"
    rb"|\broles?\b.{0,60}\b(?:not supported|unsupported|not allowed|invalid|unknown)"
    rb"|should be .{0,4}user.{0,12}assistant",
    re.IGNORECASE | re.DOTALL,
)
_ALTERNATE = re.compile(
    rb"\broles?\b.{0,20}\bmust alternate|\balternat\w+ .{0,40}\brole", re.IGNORECASE
)
_SHORT_IDS = re.compile(rb"\bids? should be alphanumeric\b.{0,40}\b9\b", re.IGNORECASE)


def refuses_late(body: bytes) -> bool:
    """Whether the error answer may be about a system message that comes late."""
    text = body[:LARGEST]
    return any(words.search(text) for words in (_ORDER, _ROLE, _ALTERNATE))


def wants_short_ids(body: bytes) -> bool:
    """Whether it says that the ids of calls have to be nine letters or digits."""
    return _SHORT_IDS.search(body[:LARGEST]) is not None


def wants_turns(body: bytes) -> bool:
    """Whether it says that user and assistant have to take turns."""
    return _ALTERNATE.search(body[:LARGEST]) is not None
