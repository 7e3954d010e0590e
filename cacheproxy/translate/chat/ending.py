"""How an answer ended, and what it cost, as chat completions say it."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.conversation.usage import Usage

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Anthropic's API reference, "Stop reasons", without "tool_use": there the calls decide."""


def finish_reason(stop_reason: Any, *, called: bool, functions: bool) -> str:
    """Return the finish reason for a message's ``stop_reason``, known or not.

    ``called``: there are tool calls; ``functions``: the client knows ``function_call`` alone.
    """
    reason = _REASONS.get(stop_reason, "stop") if isinstance(stop_reason, str) else "stop"
    if called and reason == "stop":
        return "function_call" if functions else "tool_calls"
    return reason


def usage_for(usage: Usage) -> dict[str, Any] | None:
    """Return OpenAI's usage: ``prompt_tokens`` is the whole prompt, reused or not (law 6).

    None if the server said nothing. Else what it did not say is 0 where the API needs a number,
    and not there where it does not.
    """
    if usage.prompt is None and usage.output is None:
        return None
    prompt, output = usage.prompt or 0, usage.output or 0
    said: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if usage.reused is not None:
        said["prompt_tokens_details"] = {"cached_tokens": usage.reused}
    return said
