"""Refusals by servers: their message, and whether the prompt was too long."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from cacheproxy.core.document.reader import parsed

_LONGEST = 8192
"""Characters of a server's message at most, in what is sent to a client."""
_ANTHROPIC = re.compile(r"prompt is too long|exceed context limit", re.IGNORECASE)
# Each server has its own sentence: OpenAI and vLLM several, SGLang two, llama.cpp and mlx-lm one.
_SIGNS = re.compile(
    r"context[_ ](?:length|size|window|limit)|context the overflows|exceed_context_size"
    r"|maximum (?:model|prompt) length|max_seq_len|(?:prompt|input)(?: is)? too long"
    r"|input token count|exceed(?:s|ed)? (?:the )?(?:model )?token limit|reduce the length of the",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"(?<!\d)(\d+) in (?:the|your) messages|resulted in (\d+) tokens|at least (\d+) input tokens"
    r"|request has (\d+) input tokens|passed (\d+) input tokens|prompt \(length (\d+)\)"
    r"|input \((\d+) tokens\)|(?<!\d)(\d+) tokens from the input|request \((\d+) tokens\)"
)
_OUTPUT = re.compile(
    r"(?<!\d)(\d+) in the completion|requested (\d+) output tokens|is too large: (\d+)"
    r"|(?<!\d)(\d+) tokens for the completion|plus (\d+) 'max_tokens'"
)
_LIMIT = re.compile(
    r"context length (?:is only|is|of) (\d+)|maximum model length of (\d+)"
    r"|context length \((\d+) tokens|context size \((\d+) tokens"
)


def is_overflow(status: int, *signs: Any) -> bool:
    """Whether a refusal means that the prompt does not fit: ``signs`` are its message, type, code.

    A ``status`` of 429 has another reason, though its message counts tokens, too.
    """
    return status != 429 and any(
        isinstance(sign, str) and _SIGNS.search(sign) is not None for sign in signs
    )


def as_json(message: str) -> str:
    """Return an overflow's message as JSON with its code, for clients that read no other form.

    Source: opencode 1.18, ``parseStreamError``.
    """
    error = {"code": "context_length_exceeded", "message": message}
    return json.dumps({"type": "error", "error": error}, ensure_ascii=False)


class Counts(NamedTuple):
    """The numbers of tokens in the message of a refusal, None for those that are not there."""

    prompt: int | None  #: tokens of the messages
    output: int | None  #: tokens that the answer may have
    limit: int | None  #: most tokens of both together


def counts_in(message: str) -> Counts:
    """Return the numbers of tokens in a server's ``message`` that a request does not fit."""
    return Counts(_number(_PROMPT, message), _number(_OUTPUT, message), _number(_LIMIT, message))


def too_long(status: int, error: dict[str, Any], message: str) -> str | None:
    """Return Anthropic's sentence for a prompt that does not fit; None for any other ``error``.

    Clients parse the sentences and their numbers: on ``prompt is too long`` they compact the
    conversation, on the other, if the prompt alone would fit, they ask for a shorter answer.
    """
    if not is_overflow(status, message, error.get("type"), error.get("code")):
        return None
    counts = counts_in(message)
    prompt, limit = error.get("n_prompt_tokens"), error.get("n_ctx")  # llama.cpp
    if type(prompt) is not int or type(limit) is not int:
        prompt, limit = counts.prompt, counts.limit
    if prompt is None or limit is None:
        told = message if _ANTHROPIC.search(message) else f"prompt is too long: {message}"
        return told[:_LONGEST]
    if counts.output is not None and prompt < limit:
        return (
            "input length and `max_tokens` exceed context limit: "
            f"{prompt} + {counts.output} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return f"prompt is too long: {prompt} tokens > {limit} maximum"


def details_of(value: Any) -> dict[str, Any]:
    """Return the object that describes the error in the JSON answer ``value``."""
    whole = value if isinstance(value, dict) else {}
    inner = whole.get("error")
    return inner if isinstance(inner, dict) else whole


def refusal(status: int, value: Any, text: str = "") -> str:
    """Return the server's message in the JSON answer ``value``, in whichever member it is.

    FastAPI has it in ``detail``. ``text``: the message if the answer was no JSON.
    """
    details = details_of(value)
    for found in (details.get("message"), details.get("error"), details.get("detail"), value):
        if isinstance(found, str) and found.strip():
            return found.strip()[:_LONGEST]
        if isinstance(found, list | dict) and found:
            try:
                return json.dumps(found, ensure_ascii=False)[:_LONGEST]
            except RecursionError:
                break
    return text[:_LONGEST] or f"the server answered with status {status}"


def said(status: int, body: bytes) -> str:
    """Return the server's message in the body of an error."""
    value = parsed(body)
    text = body[: 4 * _LONGEST].decode(errors="replace").strip() if value is None else ""
    return refusal(status, value, text)


def _number(wordings: re.Pattern[str], message: str) -> int | None:
    found = wordings.search(message)
    digits = found[found.lastindex] if found is not None and found.lastindex else ""
    return int(digits) if 0 < len(digits) < 16 else None
