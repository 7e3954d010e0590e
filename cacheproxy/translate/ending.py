"""How an answer ended, and what it cost, in Anthropic's words."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.translate.asked import Asked
from cacheproxy.translate.translation_error import TranslationError

_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "stop_sequence": "stop_sequence",
    "max_tokens": "max_tokens",
}
"""OpenAI's finish reasons, and two of servers that speak half and half; others mean an end."""
_CUT = frozenset({"abort", "cancelled", "error", "insufficient_system_resource"})
"""Of vLLM, gateways and DeepSeek: the server gave up, the answer is no whole one."""
_STOPPED_BY = ("stop_reason", "matched_stop")
"""Where vLLM and SGLang say which stop sequence it was; OpenAI and llama.cpp do not say."""


def stop_reason(
    choice: dict[str, Any], asked: Asked, *, called: bool, refused: bool
) -> tuple[str, str | None]:
    """Return (stop_reason, stop_sequence) for a choice that has ended.

    ``called``: it has tool calls; ``refused``: it has a refusal. A stop sequence is named only
    where the server names one of the client's own: else "stop" is the end of the turn.
    Raises TranslationError if the server says that it gave up.
    """
    finish = choice.get("finish_reason")
    if isinstance(finish, str) and finish in _CUT:
        raise TranslationError("the server gave the answer up before its end")
    reason = _REASONS.get(finish, "end_turn") if isinstance(finish, str) else "end_turn"
    if refused or reason == "refusal":
        return "refusal", None
    if reason == "max_tokens":
        return reason, None
    if called:
        return "tool_use", None
    for name in _STOPPED_BY:
        if isinstance(choice.get(name), str) and choice[name] in asked.stops:
            return "stop_sequence", choice[name]
    return ("stop_sequence" if reason == "stop_sequence" else "end_turn"), None


def usage_for(usage: Usage) -> dict[str, int]:
    """Return Anthropic's usage: ``input_tokens`` is without what was reused or written (law 6).

    What the server did not say is 0 where the API needs a number, and not there where it does not.
    """
    said = {"output_tokens": usage.output or 0}
    if usage.prompt is None:
        return said
    said["input_tokens"] = usage.prompt - (usage.reused or 0) - (usage.written or 0)
    if usage.written is not None:
        said["cache_creation_input_tokens"] = usage.written
    if usage.reused is not None:
        said["cache_read_input_tokens"] = usage.reused
    return said
