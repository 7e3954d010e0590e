"""A chat server's answer in Anthropic's shape: a whole completion as a message, or an error.

Streamed answers take their ids, stop reason and usage from here too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.dialects.content import NOT_JSON
from cacheproxy.core.dialects.errors import details_of, refusal, said, too_long
from cacheproxy.core.dialects.messages import error_type
from cacheproxy.core.dialects.stream import event
from cacheproxy.core.document.reader import parsed
from cacheproxy.translate.reading import (
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
"""Prefixes of ids: of Anthropic's messages and tool calls, and of a chat server's completions."""
_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "stop_sequence": "stop_sequence",
    "max_tokens": "max_tokens",
}
"""Stop reasons by OpenAI's finish reasons and two of Anthropic's that some chat servers send.

Any other finish reason becomes "end_turn".
"""
_CUT = frozenset({"abort", "cancelled", "error", "insufficient_system_resource"})
"""Finish reasons of vLLM, gateways and DeepSeek for an answer that the server cut short."""
_STOPPED_BY = ("stop_reason", "matched_stop")
"""Members in which vLLM and SGLang name the matched stop sequence; OpenAI and llama.cpp do not."""
NAMELESS = "the server's answer has a tool call without a name"


@dataclass(frozen=True, kw_only=True)
class AnswerContext:
    """The parts of a request that its answer depends on."""

    model: str = ""  #: model name that the client sent
    stops: tuple[str, ...] = ()  #: the client's stop sequences
    body: bytes = field(default=b"", repr=False)  #: body sent upstream

    def message(
        self, answer: Json, content: list[Json], ended: tuple[str | None, str | None], usage: Json
    ) -> Json:
        """Return the message; id and model are those that ``answer`` names, else of the request.

        ``ended``: result of ``stop_reason``, (None, None) at the start of a stream.
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
        """Return the id of an answer's tool call ``number``: ``given``, the server's own, if any.

        Otherwise ``toolu_HASH_NUMBER`` by the body sent: equal for a retry, not for a later turn.
        """
        if isinstance(given, str) and given:
            return given
        return f"{_CALL}{self._digest}_{number}"

    @cached_property
    def _digest(self) -> str:
        """The first 24 hex digits of the SHA-256 of ``body``."""
        return hashlib.sha256(self.body).hexdigest()[:24]


def stop_reason(
    choice: dict[str, Any], context: AnswerContext, *, called: bool, refused: bool
) -> tuple[str, str | None]:
    """Return (stop_reason, stop_sequence) for a choice that has ended.

    ``called``: the answer has tool calls; ``refused``: it has a refusal. The first that applies:
    refusal, max_tokens, tool_use, stop_sequence (None as its text if the server names none of the
    client's own), end_turn. Raises TranslationError for a finish reason of ``_CUT``.
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
        if isinstance(choice.get(name), str) and choice[name] in context.stops:
            return "stop_sequence", choice[name]
    return ("stop_sequence" if reason == "stop_sequence" else "end_turn"), None


def usage_for(usage: Usage) -> dict[str, int]:
    """Return Anthropic's usage: ``input_tokens`` excludes reused and written tokens (law 6).

    ``output_tokens`` is 0 if the server did not report it; other unreported figures are missing.
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

    status: int  #: HTTP status
    body: bytes  #: JSON text


def message(value: Json, context: AnswerContext, spellings: Spellings) -> bytes:
    """Return the chat completion ``value`` as a message in JSON.

    Its blocks: thinking, text (a refusal is text), tool calls. ``input`` is the arguments' text as
    the model wrote it. Arguments that are no JSON object, as of an answer cut short, become a
    string under "INVALID_JSON", as Anthropic's documentation on fine-grained tool streaming advises
    clients: a tool that checks its input refuses it, and the model can see what it wrote.
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
    content += (_tool_use(call, number, context, spellings) for number, call in enumerate(calls))
    ended = stop_reason(choice, context, called=bool(calls), refused=bool(refusal))
    usage = {"input_tokens": 0} | usage_for(usage_of(value))
    return write(context.message(value, content, ended, usage))


def _calls(said: Json) -> list[Json]:
    """Return the tool calls of a chat message; an older server's ``function_call`` has no id."""
    calls = said.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if not found and isinstance(said.get("function_call"), dict):
        found = [{"function": said["function_call"]}]
    return found


def _tool_use(call: Json, number: int, context: AnswerContext, spellings: Spellings) -> Json:
    """Return ``call`` as a block; adds its arguments' text, if an object, to ``spellings``."""
    name, text = function_in(call.get("function"))
    if not name:
        raise TranslationError(NAMELESS)
    call_id = context.call_id(call.get("id"), number)
    given: Any = {}
    if is_object(text):
        spellings.keep(call_id, text)
        given = raw(text)
    elif text.strip():
        given = {NOT_JSON: text}
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def error_answer(status: int, body: bytes) -> WholeAnswer:
    """Return the client's error: status 400 for an overflow, else the server's, if it is one."""
    value = parsed(body)
    status = _status(value, status)
    status, error = _error(value, status, said(status, body))
    return WholeAnswer(status, write({"type": "error", "error": error, "request_id": None}))


def error_event(value: Any) -> bytes:
    """Return the ``error`` event for an error in mid-stream; ``value``: the server's event data."""
    status = _status(value, 200)
    return event({"type": "error", "error": _error(value, status, refusal(status, value))[1]})


def _status(value: Any, status: int) -> int:
    """Return an error's status: ``status``, or if that is below 400, the error's code, or 500."""
    code = details_of(value).get("code")
    if status >= 400:
        return status
    return code if type(code) is int and 400 <= code < 600 else 500


def _error(value: Any, status: int, message: str) -> tuple[int, dict[str, str]]:
    """Return the status and the ``error`` object for a server's error ``message``."""
    overflow = too_long(status, details_of(value), message)
    if overflow is not None:
        status, message = 400, overflow
    return status, {"type": error_type(status), "message": message}
