"""A chat server's answer in Anthropic's shape: a whole completion as a message, or an error.

Of any answer, streamed or not: its ids, how it ended, and what it cost.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.dialects.messages import error_type
from cacheproxy.core.document.reader import parsed
from cacheproxy.translate.reading import (
    NOT_JSON,
    Json,
    TranslationError,
    choice_of,
    function_in,
    is_object,
    plain_text,
    raw,
    string_in,
    thinking_of,
    write,
)

_ANSWER, _CALL, _THEIRS = "msg_", "toolu_", "chatcmpl-"
"""What ids of answers and of tool calls begin with; chat servers' word for the former."""
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
NAMELESS = "the server's answer has a tool call without a name"
_LONGEST = 8192
"""Characters of a message that are handed on."""
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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    model: str = ""  #: As the client names it.
    stops: tuple[str, ...] = ()  #: The client's stop sequences.
    body: bytes = field(default=b"", repr=False)  #: What went up.

    def message(
        self, answer: Json, content: list[Json], ended: tuple[str | None, str | None], usage: Json
    ) -> Json:
        """Return the message that ``answer`` is: with its id and model, where it names them.

        ``ended``: see ``stop_reason``.
        """
        given = string_in(answer.get("id"))
        name = given.removeprefix(_THEIRS).removeprefix(_ANSWER) if given else self._digest
        return {
            "id": _ANSWER + name,
            "type": "message",
            "role": "assistant",
            "model": string_in(answer.get("model")) or self.model,
            "content": content,
            "stop_reason": ended[0],
            "stop_sequence": ended[1],
            "usage": usage,
        }

    def call_id(self, given: Any, number: int) -> str:
        """Return the id of an answer's tool call ``number``: the server's own, if it gives any.

        Else one that follows from the request: the same for the same request, another for the
        next turn's.
        """
        if isinstance(given, str) and given:
            return given
        return f"{_CALL}{self._digest}_{number}"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:24]


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


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """A whole response for the client."""

    status: int  #: of the response
    body: bytes  #: A JSON text.


def message(value: Json, asked: Asked, spellings: Spellings) -> bytes:
    """Return the message that says what the chat completion ``value`` says, as JSON.

    Blocks: thinking, text (a refusal is text), tool calls. ``input`` is the model's own text of
    it. Arguments that are no JSON object, as of an answer cut short, stand as a string under
    "INVALID_JSON", which is what Anthropic's documentation on fine-grained tool streaming has
    clients do: a tool that checks its input refuses it, and the model can see what it wrote.
    Raises TranslationError if there is no message, or a call without a name.
    """
    choice = choice_of(value)
    said = choice.get("message") if choice is not None else None
    if choice is None or not isinstance(said, dict):
        raise TranslationError("the server's answer has no message")
    content: list[Json] = []
    thinking = thinking_of(said)
    if thinking:
        content.append({"type": "thinking", "thinking": thinking, "signature": ""})
    refusal = string_in(said.get("refusal"))
    texts = (plain_text(said.get("content")), refusal)
    content += ({"type": "text", "text": text} for text in texts if text)
    calls = _calls(said)
    content += (_tool_use(call, number, asked, spellings) for number, call in enumerate(calls))
    ended = stop_reason(choice, asked, called=bool(calls), refused=bool(refusal))
    usage = {"input_tokens": 0} | usage_for(usage_of(value))
    return write(asked.message(value, content, ended, usage))


def _calls(said: Json) -> list[Json]:
    """Return the tool calls; the ``function_call`` of older servers is one without an id."""
    calls = said.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if not found and isinstance(said.get("function_call"), dict):
        found = [{"function": said["function_call"]}]
    return found


def _tool_use(call: Json, number: int, asked: Asked, spellings: Spellings) -> Json:
    name, text = function_in(call.get("function"))
    if not name:
        raise TranslationError(NAMELESS)
    call_id = asked.call_id(call.get("id"), number)
    given: Any = {}
    if is_object(text):
        spellings.keep(call_id, text)
        given = raw(text)
    elif text.strip():
        given = {NOT_JSON: text}
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def error_answer(status: int, body: bytes) -> WholeAnswer:
    """Return an error response for the client; its status, except where the context overflowed."""
    value = parsed(body)
    text = body[: 4 * _LONGEST].decode(errors="replace").strip() if value is None else ""
    status, error = _error(value, text, status)
    return WholeAnswer(status, write({"type": "error", "error": error, "request_id": None}))


def error_event(value: Any) -> bytes:
    """Return the event for an error in mid-stream; ``value``: what the server's event said."""
    error = _error(value, "", 200)[1]
    return b"event: error\ndata: %s\n\n" % write({"type": "error", "error": error})


def is_error(value: Any) -> bool:
    """Whether a JSON answer or event is an error: OpenAI's shape, or vLLM's older one."""
    return isinstance(value, dict) and (
        value.get("error") is not None or value.get("object") == "error"
    )


def _error(value: Any, text: str, status: int) -> tuple[int, dict[str, str]]:
    """Return the status and the ``error`` object; a ``status`` below 400 says nothing."""
    whole: Json = value if isinstance(value, dict) else {}
    inner = whole.get("error")
    details = inner if isinstance(inner, dict) else whole  # what describes the error
    if status < 400:
        code = details.get("code")
        status = code if type(code) is int and 400 <= code < 600 else 500
    message = _message_of(value, details) or text or f"the server answered with status {status}"
    overflow = too_long(details, message) if status != 429 else None
    if overflow is not None:
        status, message = 400, overflow
    return status, {"type": error_type(status), "message": message[:_LONGEST]}


def _message_of(value: Any, details: dict[str, Any]) -> str:
    """Return what the server said, wherever it put it (FastAPI: ``detail``)."""
    for found in (details.get("message"), details.get("error"), details.get("detail"), value):
        if isinstance(found, str) and found.strip():
            return found.strip()
        if isinstance(found, list | dict) and found:
            try:
                return json.dumps(found, ensure_ascii=False)
            except RecursionError:
                return ""
    return ""


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
