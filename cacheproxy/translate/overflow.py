"""Prompts that do not fit, as each chat server says it, in the words Anthropic clients read."""

from __future__ import annotations

import re
from typing import Any

_SIGNS = re.compile(
    r"context[_ ](?:length|size|window)|maximum model length|exceed_context_size", re.IGNORECASE
)
# Each server has its own sentence: OpenAI and vLLM several, SGLang two, llama.cpp one.
_PROMPT = re.compile(
    r"(?<!\d)(\d+) in (?:the|your) messages|resulted in (\d+) tokens|at least (\d+) input tokens"
    r"|request has (\d+) input tokens|passed (\d+) input tokens|prompt \(length (\d+)\)"
    r"|input \((\d+) tokens\)|(?<!\d)(\d+) tokens from the input|request \((\d+) tokens\)"
)
_OUTPUT = re.compile(
    r"(?<!\d)(\d+) in the completion|requested (\d+) output tokens|is too large: (\d+)"
    r"|(?<!\d)(\d+) tokens for the completion"
)
_LIMIT = re.compile(
    r"context length (?:is only|is|of) (\d+)|maximum model length of (\d+)"
    r"|context length \((\d+) tokens|context size \((\d+) tokens"
)


def too_long(error: dict[str, Any], message: str) -> str | None:
    """Return what Anthropic says of a prompt that does not fit, None if ``error`` is another one.

    Clients read these sentences, with their numbers: on the first they compact the conversation,
    on the second, where the prompt alone would fit, they ask for a shorter answer.
    """
    signs = (message, error.get("type"), error.get("code"))
    if not any(isinstance(sign, str) and _SIGNS.search(sign) for sign in signs):
        return None
    prompt, limit = error.get("n_prompt_tokens"), error.get("n_ctx")  # llama.cpp
    if type(prompt) is not int or type(limit) is not int:
        prompt, limit = _number(_PROMPT, message), _number(_LIMIT, message)
    if prompt is None or limit is None:
        return f"prompt is too long: {message}"
    output = _number(_OUTPUT, message)
    if output is not None and prompt < limit:
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return f"prompt is too long: {prompt} tokens > {limit} maximum"


def _number(wordings: re.Pattern[str], message: str) -> int | None:
    found = wordings.search(message)
    digits = found[found.lastindex] if found is not None and found.lastindex else ""
    return int(digits) if 0 < len(digits) < 16 else None
