"""Answers as streams, of each API that streams events, for the tests of the form they come in."""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.http1.reshape import AsStream, AsWhole, Transform

Json = dict[str, Any]
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
DONE = b"data: [DONE]\n\n"


def through(transform: Transform, *pieces: bytes) -> bytes:
    """All that comes out for ``pieces``, the end included."""
    return b"".join([*map(transform.feed, pieces), transform.close()])


def whole(dialect: Any, *pieces: bytes) -> Json:
    """The whole body that a stream makes."""
    body: Json = json.loads(through(AsWhole(dialect), *pieces))
    return body


def streamed(dialect: Any, body: Json) -> bytes:
    """The stream that a whole body makes."""
    return through(AsStream(dialect), json.dumps(body).encode())


def chunk(delta: Json, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    if "logprobs" in more:
        choice["logprobs"] = more.pop("logprobs")
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    return b"data: %s\n\n" % json.dumps(head | {"choices": [choice]} | more).encode()


def counted(**more: Any) -> bytes:
    """The chunk that has the usage alone."""
    last = json.loads(chunk({}).removeprefix(b"data: ")) | {"choices": [], "usage": USAGE}
    return b"data: %s\n\n" % json.dumps(last | more).encode()


def call(index: int, arguments: str, **more: Any) -> Json:
    """A delta of one tool call; ``id`` and ``name`` where it begins."""
    function = {"arguments": arguments}
    if "name" in more:
        function["name"] = more.pop("name")
        more["type"] = "function"
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def token(text: str) -> Json:
    one = {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": []}
    return {"content": [one], "refusal": None}


def named(*values: Json, numbered: bool = False) -> list[bytes]:
    """Events with the names of their types."""
    return [
        b"event: %s\ndata: %s\n\n"
        % (
            value["type"].encode(),
            json.dumps(value | ({"sequence_number": number} if numbered else {})).encode(),
        )
        for number, value in enumerate(values)
    ]


def response(status: str, *output: Json, **more: Any) -> Json:
    return {
        "id": "resp_1", "object": "response", "created_at": 7, "model": "m", "status": status,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "temperature": 1.0, "top_p": 1.0, "usage": None, **more,
    }  # fmt: skip


def _message() -> list[bytes]:
    """A message of Anthropic's: thinking, a text with a citation, two calls, a server's own."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}
    start = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    citation = {
        "type": "char_location", "cited_text": "c", "document_index": 0, "document_title": None,
        "start_char_index": 0, "end_char_index": 1, "file_id": None,
    }  # fmt: skip
    blocks: list[tuple[Json, list[tuple[str, str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [("thinking_delta", "thinking", "Hm,"), ("thinking_delta", "thinking", " so."),
             ("signature_delta", "signature", "c2ln")],
        ),
        ({"type": "redacted_thinking", "data": "x"}, []),
        (
            {"type": "text", "text": "", "citations": []},
            [("text_delta", "text", "I lo"), ("citations_delta", "citation", citation),
             ("text_delta", "text", "ok é \U0001f600.")],
        ),
        (
            {"type": "tool_use", "id": "toolu_1", "name": "one", "input": {}},
            [("input_json_delta", "partial_json", piece) for piece in ("", '{"a": [1.5', "]}")],
        ),
        (
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            [("input_json_delta", "partial_json", '{"query":"q"}')],
        ),
        ({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, []),
        ({"type": "tool_use", "id": "toolu_2", "name": "two", "input": {}}, []),
    ]  # fmt: skip
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for kind, name, value in deltas:
            delta = {"type": kind, name: value}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 30}})
    return named(*events, {"type": "message_stop"})


def _response() -> list[bytes]:
    """A response of OpenAI's: reasoning, a text in two pieces, a call."""
    thought = {"type": "reasoning_text", "text": "Hm."}
    text = {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [thought],
                 "encrypted_content": "", "status": "completed"}  # fmt: skip
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [text]}  # fmt: skip
    called = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "one",
              "arguments": '{"a":1}', "status": "completed"}  # fmt: skip
    begun = {"status": "in_progress"}
    one: Json = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    two: Json = {"item_id": "fc_1", "output_index": 2}
    usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4,
             "cache_write_tokens": 0}, "output_tokens": 4,
             "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 13}  # fmt: skip
    zero: Json = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    final = response("completed", reasoning, said, called, usage=usage)
    return named(
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0,
         "item": reasoning | begun | {"content": []}},
        {"type": "response.content_part.added", "part": thought | {"text": ""}, **zero},
        {"type": "response.reasoning_text.delta", "delta": "Hm.", **zero},
        {"type": "response.reasoning_text.done", "text": "Hm.", **zero},
        {"type": "response.content_part.done", "part": thought, **zero},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.added", "output_index": 1,
         "item": said | begun | {"content": []}},
        {"type": "response.content_part.added", "part": text | {"text": ""}, **one},
        {"type": "response.output_text.delta", "delta": "I lo", "logprobs": [], **one},
        {"type": "response.output_text.delta", "delta": "ok.", "logprobs": [], **one},
        {"type": "response.output_text.done", "text": "I look.", "logprobs": [], **one},
        {"type": "response.content_part.done", "part": text, **one},
        {"type": "response.output_item.done", "output_index": 1, "item": said},
        {"type": "response.output_item.added", "output_index": 2,
         "item": called | begun | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", "delta": '{"a"', **two},
        {"type": "response.function_call_arguments.delta", "delta": ":1}", **two},
        {"type": "response.function_call_arguments.done", "arguments": '{"a":1}', "name": "one",
         **two},
        {"type": "response.output_item.done", "output_index": 2, "item": called},
        {"type": "response.completed", "response": final},
        numbered=True,
    )  # fmt: skip


STREAMS: dict[str, tuple[Any, list[bytes]]] = {
    "text": (
        CHAT,
        [
            chunk({"role": "assistant", "content": None}, logprobs=token("")),
            chunk({"content": "Hé"}, logprobs=token("H")),
            chunk({"content": "llo \U0001f600"}, logprobs=token("i")),
            chunk({}, "stop", timings={"cache_n": 4}),
            counted(),
            DONE,
        ],
    ),
    "calls": (
        CHAT,
        [
            chunk({"role": "assistant", "reasoning_content": "Hm,"}),
            chunk({"reasoning_content": " so."}),
            chunk({"content": "I look."}),
            chunk(call(0, "", name="one", id="call_1")),
            chunk(call(0, '{"a"')),
            chunk(call(1, "{}", name="two", id="call_2")),
            chunk(call(0, ":1}")),
            chunk({}, "tool_calls"),
            counted(),
            DONE,
        ],
    ),
    "choices": (
        CHAT,
        [
            chunk({"role": "assistant", "content": "a"}),
            chunk({"role": "assistant", "content": "x"}, index=1),
            chunk({"content": "b"}),
            chunk({"refusal": "No."}, index=1),
            chunk({}, "stop", index=1),
            chunk({}, "stop"),
            DONE,
        ],
    ),
    "response": (RESPONSES, _response()),
    "message": (MESSAGES, _message()),
}
"""Each with its dialect, event by event."""
