"""Answers with the status 200 that say that they failed, or say nothing, in each dialect."""

import json

import pytest

from cacheproxy.core.adapt.refusal import words
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.prompt.request import Request
from tests.core.counting import ANTHROPIC, CHAT_USAGE, JSON, NDJSON, OLLAMA, SSE, events

ASKED = Request("POST", "/v1/messages", (), b'{"messages": []}')
DONE = "[DONE]"
OVERLOADED = {"type": "overloaded_error", "message": "Overloaded now"}
START = {"type": "message_start", "message": ANTHROPIC | {"content": [], "stop_reason": None}}
ENDED = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
STOP = {"type": "message_stop"}
USED = {"choices": [], "usage": CHAT_USAGE}
RESPONSE = {"object": "response", "id": "resp_1", "output": [], "error": None}
GOOGLE = {"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "g"}


def block(kind="text", **more):
    """The start of a block of a message."""
    return {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **more}}


def delta(**more):
    """A delta of one."""
    return {"type": "content_block_delta", "index": 0, "delta": more}


def choice(end=None, **message):
    """A chunk of a chat completion."""
    return {"choices": [{"index": 0, "delta": message, "finish_reason": end}]}


def chat(end="stop", **message):
    """A chat completion."""
    return {"choices": [{"index": 0, "message": message, "finish_reason": end}]}


def lines(*messages):
    """An answer in lines of JSON."""
    return NDJSON, "".join(f"{json.dumps(message)}\n" for message in messages).encode()


def stream(*messages):
    """An answer in events."""
    return SSE, events(*messages)


def whole(message):
    """An answer as one body."""
    return JSON, json.dumps(message).encode()


def response(status, **more):
    """The last event of a stream of the Responses API."""
    made = RESPONSE | {"status": status} | more
    return {"type": f"response.{status}", "response": made}


FAILED = {
    "Messages: an event": stream({"type": "error", "error": OVERLOADED}),
    "Messages: after some text": stream(
        START,
        block(text=""),
        delta(type="text_delta", text="So"),
        {"type": "error", "error": OVERLOADED},
    ),
    "Messages: a body": whole({"type": "error", "error": OVERLOADED}),
    "Chat: a chunk": stream({"error": OVERLOADED}, DONE),
    "Chat: after some text": stream(choice(content="So"), {"error": OVERLOADED}),
    "Chat: a chunk that finishes": stream(
        choice(content="So"), choice("error") | {"error": OVERLOADED}, DONE
    ),
    "Chat: a choice": whole({"choices": [{"error": OVERLOADED}]}),
    "Chat: a body": whole({"error": OVERLOADED}),
    "Chat: a text": (JSON, b'{"error": "Overloaded now"}'),
    "Chat: the older vLLM": whole({"object": "error", **OVERLOADED}),
    "Chat: without blanks, in pieces": (
        SSE,
        b'data:{"error":{"message":"Overloaded now"}}\r\n\r\n',
    ),
    "Responses: failed": stream(response("failed", error=OVERLOADED)),
    "Responses: an error": stream({"type": "error", "message": "Overloaded now"}),
    "Responses: a body": whole(RESPONSE | {"status": "failed", "error": OVERLOADED}),
    "Ollama: a line": lines(
        {"message": {"content": "So"}, "done": False}, {"error": "Overloaded now"}
    ),
    "Ollama: a body": (JSON, b'{"error": "Overloaded now"}'),
    "Google: a body": whole({"error": {"code": 503, **OVERLOADED}}),
    "Google: in a list": stream({"error": {"code": 503, **OVERLOADED}}),
    "a megabyte": stream({"error": {"message": "Overloaded now" + " and then" * 120_000}}),
}
OTHERWISE = {
    "Responses: filtered": (
        stream(response("incomplete", incomplete_details={"reason": "content_filter"})),
        "it is incomplete: content_filter",
    ),
    "Responses: cancelled": (stream(response("cancelled")), "it is cancelled"),
    "Responses: no words": (
        whole(RESPONSE | {"status": "failed"}),
        "it is failed",
    ),
    "Chat: a finish": (stream(choice("error"), DONE), "it finished with an error"),
    "Google: blocked": (
        whole({"promptFeedback": {"blockReason": "SAFETY"}}),
        "the prompt was blocked: SAFETY",
    ),
}
EMPTY = {
    "Messages: a body": whole(ANTHROPIC | {"content": []}),
    "Messages: a blank text": whole(ANTHROPIC | {"content": [{"type": "text", "text": "\n "}]}),
    "Messages: a stream": stream(START, ENDED, STOP),
    "Messages: an empty block": stream(START, block(text=""), ENDED, STOP),
    "Messages: empty thoughts": stream(START, block("thinking", thinking=""), ENDED, STOP),
    "Chat: no choices": whole({"choices": [], "usage": CHAT_USAGE}),
    "Chat: nothing": whole(chat(role="assistant", content=None)),
    "Chat: blank": whole(chat(content="", tool_calls=[], refusal=None)),
    "Chat: a stream": stream(choice(role="assistant", content=""), choice("stop"), USED, DONE),
    "Chat: a stream of usage": stream(USED, DONE),
    "Chat: the end alone": stream(DONE),
    "Text: a body": whole({"choices": [{"text": "", "finish_reason": "stop"}]}),
    "Text: llama.cpp": whole({"content": "", "stop": True, "tokens_evaluated": 9}),
    "Responses: a body": whole(RESPONSE | {"status": "completed"}),
    "Responses: a stream": stream(response("created"), response("completed")),
    "Responses: an empty message": whole(
        RESPONSE
        | {
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "m",
                    "status": "completed",
                    "content": [
                        {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
                    ],
                }
            ]
        }
    ),
    "Ollama: a line": lines({"message": {"role": "assistant", "content": ""}, "done": True}),
    "Ollama: generated": whole(OLLAMA | {"response": ""}),
    "Google: a body": whole(GOOGLE | {"candidates": []}),
    "Google: a stream": stream(
        GOOGLE | {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}
    ),
}
SAYS = {
    "Messages: a call without arguments": stream(
        START, block("tool_use", name="f", input={}), ENDED, STOP
    ),
    "Messages: hidden thoughts": stream(START, block("redacted_thinking", data="x"), ENDED, STOP),
    "Messages: thoughts": stream(START, block("thinking"), delta(thinking="so"), ENDED, STOP),
    "Messages: a signature": stream(START, delta(signature="x"), ENDED, STOP),
    "Messages: it quotes one": stream(
        START, delta(text='{"error": {"message": "x"}} "error"'), ENDED, STOP
    ),
    "Messages: an error behind the end": stream(
        START, delta(text="So"), ENDED, STOP, {"type": "error", "error": OVERLOADED}
    ),
    "Chat: a call": whole(
        chat(content="", tool_calls=[{"function": {"name": "f", "arguments": ""}}])
    ),
    "Chat: reasoning": stream(choice(reasoning_content="so"), choice("stop"), DONE),
    "Chat: reasoning by its other name": whole(chat(content="", reasoning="so")),
    "Chat: a refusal": whole(chat(refusal="I will not")),
    "Chat: sound": whole(chat(content=None, audio={"id": "a", "data": "xx"})),
    "Chat: a picture": whole(chat(content="", images=[{"image_url": {"url": "data:"}}])),
    "Chat: no error": whole(chat(content="ok") | {"error": None}),
    "Chat: an error behind the end": stream(choice(content="So"), DONE, {"error": OVERLOADED}),
    "Responses: too short": whole(
        RESPONSE
        | {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"type": "reasoning", "encrypted_content": "x", "summary": []}],
        }
    ),
    "Responses: a call": whole(RESPONSE | {"output": [{"type": "function_call", "name": "f"}]}),
    "Responses: a search": whole(RESPONSE | {"output": [{"type": "web_search_call"}]}),
    "Ollama: a call": lines(
        {"message": {"content": "", "tool_calls": [{"function": {"name": "f"}}]}}
    ),
    "Ollama: thoughts": whole({"response": "", "thinking": "so", "done": True}),
    "Google: a call": whole(
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]}
    ),
    "too long to be read again": stream(*[choice(content=" ")] * 200, DONE),
    "no JSON": (JSON, b"fine"),
}


def reading(kind, body):
    """The reader of an answer that came in small pieces."""
    reader = UsageReader(kind)
    for start in range(0, len(body), 1009):
        reader.feed(body[start : start + 1009])
    reader.close()
    return reader


@pytest.mark.parametrize("answer", FAILED.values(), ids=FAILED)
def test_what_an_answer_says_of_its_failure(answer):
    failure = reading(*answer).failure
    assert failure is not None
    told = words(failure, (ASKED,), frozenset())
    assert told.startswith("Overloaded now")
    assert len(told) <= 160


@pytest.mark.parametrize(("answer", "said"), OTHERWISE.values(), ids=OTHERWISE)
def test_failures_in_our_words(answer, said):
    assert words(reading(*answer).failure, (ASKED,), frozenset()) == said


@pytest.mark.parametrize("answer", EMPTY.values(), ids=EMPTY)
def test_an_answer_that_says_nothing(answer):
    reader = reading(*answer)
    assert reader.failure is None
    assert reader.is_silent


@pytest.mark.parametrize("answer", SAYS.values(), ids=SAYS)
def test_an_answer_that_says_something(answer):
    reader = reading(*answer)
    assert reader.failure is None
    assert not reader.is_silent


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_half_an_error_is_none(cut):
    """That the answer broke off is told by its framing."""
    body = events({"error": OVERLOADED}, DONE)
    assert reading(SSE, body[:-cut] if cut > 16 else body[:20]).failure is None
