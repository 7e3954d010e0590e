"""A whole chat completion as a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.translate.asked import Asked
from cacheproxy.translate.ending import stop_reason, usage_for
from cacheproxy.translate.reading import (
    NOT_JSON,
    Json,
    arguments_of,
    choice_of,
    is_object,
    plain_text,
    string_in,
    thinking_of,
    tool_named,
)
from cacheproxy.translate.translation_error import TranslationError
from cacheproxy.translate.writing import raw, write


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
    reason, sequence = stop_reason(choice, asked, called=bool(calls), refused=bool(refusal))
    return write(
        {
            "id": asked.answer_id(value.get("id")),
            "type": "message",
            "role": "assistant",
            "model": asked.model_of(value),
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence,
            "usage": {"input_tokens": 0} | usage_for(usage_of(value)),
        }
    )


def _calls(said: Json) -> list[Json]:
    """Return the tool calls; the ``function_call`` of older servers is one without an id."""
    calls = said.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if not found and isinstance(said.get("function_call"), dict):
        found = [{"function": said["function_call"]}]
    return found


def _tool_use(call: Json, number: int, asked: Asked, spellings: Spellings) -> Json:
    function: Any = call.get("function")
    name = tool_named(function)
    call_id = asked.call_id(call.get("id"), number)
    text = arguments_of(function)
    given: Any = {}
    if is_object(text):
        spellings.keep(call_id, text)
        given = raw(text)
    elif text.strip():
        given = {NOT_JSON: text}
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}
