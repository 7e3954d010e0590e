"""What Messages servers stream, and what becomes of it."""

from __future__ import annotations

import json

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.shared import ErrorObject
from pydantic import TypeAdapter

from cacheproxy.core.http1.sse import EventReader
from cacheproxy.testing import request
from cacheproxy.translate.chat import ChatToMessages
from tests.translate.common.streams import through

from .conversations import PATH

CHUNK = TypeAdapter(ChatCompletionChunk)
COMPLETION = TypeAdapter(ChatCompletion)
ERROR = TypeAdapter(ErrorObject)
USAGE = {
    "input_tokens": 30,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 10,
    "output_tokens": 1,
}
FUNCTIONS = {"functions": [{"name": "look"}]}


def exchange(**more):
    """An exchange whose request has gone up."""
    exchange = ChatToMessages(created=1234)
    exchange.request(request({"model": "asked", "stream": True, "messages": [], **more}, PATH))
    return exchange


def event(kind, **more):
    value = json.dumps({"type": kind, **more})
    return f"event: {kind}\ndata: {value}\n\n".encode()


def start(**more):
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    return event("message_start", message=message | {"usage": USAGE} | more)


def begin(index, kind, **more):
    return event("content_block_start", index=index, content_block={"type": kind, **more})


def delta(index, kind, **more):
    return event("content_block_delta", index=index, delta={"type": kind, **more})


def stop(index):
    return event("content_block_stop", index=index)


def text(index, *pieces):
    deltas = (delta(index, "text_delta", text=piece) for piece in pieces)
    return b"".join([begin(index, "text", text=""), *deltas, stop(index)])


def thinking(index, *pieces):
    deltas = (delta(index, "thinking_delta", thinking=piece) for piece in pieces)
    signed = delta(index, "signature_delta", signature="s")
    return b"".join([begin(index, "thinking", thinking=""), *deltas, signed, stop(index)])


def call(index, *pieces, name="look", **more):
    given = {"id": f"toolu_{index}", "name": name, "input": {}, **more}
    deltas = (delta(index, "input_json_delta", partial_json=piece) for piece in pieces)
    return b"".join([begin(index, "tool_use", **given), *deltas, stop(index)])


def end(reason="end_turn", tokens=7):
    said = event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": tokens})
    return said + event("message_stop")


def chunks(sent):
    """The chunks of a whole stream for the client, each valid by the official SDK's types."""
    found = [one.data for one in EventReader().feed(sent)]
    assert found.pop() == b"[DONE]"
    values = [json.loads(one) for one in found]
    for value in values:
        CHUNK.validate_python(value, strict=True)
        assert (value["object"], value["created"]) == ("chat.completion.chunk", 1234)
    return values


def assembled(values):
    """The message, finish reason and usage that chunks make; fails where they make no sense."""
    message, finish, usage = {}, None, None
    for number, value in enumerate(values):
        if not value["choices"]:
            assert value is values[-1]
            usage = value["usage"]
            continue
        [choice] = value["choices"]
        said = choice["delta"]
        assert ("role" in said) == (number == 0)
        assert finish is None
        for one in said.pop("tool_calls", ()):
            calls = message.setdefault("tool_calls", [])
            function = one.pop("function")
            if one["index"] == len(calls):
                calls.append(one | {"function": {"name": function["name"], "arguments": ""}})
            calls[one["index"]]["function"]["arguments"] += function["arguments"]
        if "function_call" in said:
            function = message.setdefault("function_call", {"arguments": ""})
            given = said.pop("function_call")
            function |= {"name": given["name"]} if "name" in given else {}
            function["arguments"] += given["arguments"]
        for name, piece in said.items():
            message[name] = (message.get(name) or "") + piece if piece is not None else None
        finish = choice["finish_reason"]
    assert finish
    return message, finish, usage


def made(*pieces, **asked):
    """The message, finish reason and usage for a stream of these pieces."""
    return assembled(chunks(through(exchange(**asked).stream(), pieces)))
