"""A whole message as a chat completion."""

from __future__ import annotations

from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.translate.chat.asked import Asked
from cacheproxy.translate.chat.ending import finish_reason, usage_for
from cacheproxy.translate.common.body import Body
from cacheproxy.translate.common.reading import Json, string_in, tool_named
from cacheproxy.translate.common.translation import TranslationError
from cacheproxy.translate.common.writing import write


def completion(body: Body, asked: Asked) -> bytes:
    """Return the chat completion that says what the message ``body`` says, as JSON.

    Texts are joined, and so is the thinking, as ``reasoning_content``; ``content`` is null where
    there are calls and no text, and empty where there is neither. Arguments of calls are the text
    of their ``input``. Blocks of tools that the server ran itself, and any others, are left out.
    Raises TranslationError if there is no message, or a call without a name.
    """
    value = body.value
    content = value.get("content")
    if not isinstance(content, list):
        raise TranslationError("the server's answer has no content")
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for index, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            texts.append(string_in(block.get("text")))
        elif kind == "thinking":
            thoughts.append(string_in(block.get("thinking")))
        elif kind == "tool_use":
            calls.append(_call(body, block, index, asked, len(calls)))
    text = "".join(texts) or (None if calls else "")
    said: Json = {"role": "assistant", "content": text, "refusal": None}
    if any(thoughts):
        said["reasoning_content"] = "".join(thoughts)
    if calls and asked.functions:
        said["function_call"] = calls[0]["function"]
    elif calls:
        said["tool_calls"] = calls
    reason = finish_reason(value.get("stop_reason"), called=bool(calls), functions=asked.functions)
    usage = usage_for(usage_of(value))
    return write(
        {
            "id": asked.answer_id(value.get("id")),
            "object": "chat.completion",
            "created": asked.created,
            "model": asked.model_of(value),
            "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": reason}],
        }
        | ({} if usage is None else {"usage": usage})
    )


def _call(body: Body, block: Json, index: int, asked: Asked, number: int) -> Json:
    name = tool_named(block)
    given = isinstance(block.get("input"), dict)
    arguments = body.text_at(("content", index, "input")) if given else "{}"
    return {
        "id": asked.call_id(block.get("id"), number),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
