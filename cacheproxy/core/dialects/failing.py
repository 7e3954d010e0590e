"""The failure that an answer reports in its body, and whether it has any content for the client.

A server that has sent ``200 OK`` can still fail. Sources: the "errors" sections of the streaming
documentation of Anthropic Messages and OpenAI Responses, OpenRouter's for Chat Completions (an
``error`` in a chunk or in a choice), Ollama's ``docs/api.md``, Google's ``promptFeedback``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cacheproxy.core.dialects.stream import is_error

CONTENT = re.compile(
    rb'"(?:text|content|partial_json|arguments|thinking|reasoning(?:_content)?|delta|response)"'
    rb'\s*:\s*"(?:[ ]|\\[nrt])*[^" \\]'
)
"""Pattern of most pieces of a body that have content; for the others ``has_content`` decides."""
_HOLDERS = (
    *("choices", "candidates", "output", "item", "content_block", "content", "part", "parts"),
    *("message", "delta", "text", "thinking", "completion"),
)
"""Members of an answer's message that have the model's content."""
_LABELS = frozenset(
    {
        *("type", "role", "id", "index", "status", "model", "object", "created", "phase"),
        *("finish_reason", "finishReason", "stop_reason", "stop_sequence", "usage", "timings"),
        *("native_finish_reason", "annotations", "safetyRatings", "container", "stop_details"),
    }
)
"""Members beside the content in the same objects, which are no part of it."""
_SPEAKING = ("message", "reasoning", "text", "output_text", "thinking", None, "text_delta")
"""Types of blocks that are no content if their text is blank; others, as calls, always are."""
_LIMITS = (None, "max_output_tokens", "max_tokens")
"""Reasons for which an answer of the Responses API is incomplete without having failed."""


def failure_in(value: Any) -> Mapping[str, Any] | None:
    """Return the error in a JSON answer, event or line, None if it reports no failure."""
    if not isinstance(value, dict):
        return None
    if is_error(value):
        return value
    whole = value.get("response", value)
    if isinstance(whole, dict) and whole.get("status") in ("failed", "incomplete", "cancelled"):
        details = whole.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if is_error(whole):
            return whole
        if whole["status"] != "incomplete" or reason not in _LIMITS:
            return {"message": ": ".join(filter(None, (f"it is {whole['status']}", reason)))}
    feedback = value.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        return {"message": f"the prompt was blocked: {feedback['blockReason']}"}
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if is_error(choice):
            return dict(choice)
        if isinstance(choice, dict) and choice.get("finish_reason") == "error":
            return {"message": "it finished with an error"}
    return None


def has_content(value: Any) -> bool:
    """Whether a JSON answer, event or line has content: text, reasoning, a call or the like."""
    if not isinstance(value, dict):
        return isinstance(value, list) and any(map(has_content, value))
    whole = value.get("response")
    if isinstance(whole, str):
        return bool(whole.strip()) or _is_there(value.get("thinking"))
    return (isinstance(whole, dict) and has_content(whole)) or any(
        _is_there(value.get(name)) for name in _HOLDERS
    )


def _is_there(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, list):
        return any(map(_is_there, value))
    if not isinstance(value, dict):
        return value is not None and value is not False
    if value.get("type") not in _SPEAKING:
        return True
    return any(_is_there(inner) for name, inner in value.items() if name not in _LABELS)
