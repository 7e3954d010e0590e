"""One request sent again, its answer read as it comes, and each way that fails."""

import json

import pytest
from cacheproxy_replay.server import AnswerReader, send, text_of

from cacheproxy.core.prompt.request import Request
from cacheproxy.http_client import CommandError, Site
from cacheproxy.record.exchange import Exchange
from tests.peer import NOBODY, NOT_REUSED, Peer

SSE, JSON = "text/event-stream; charset=utf-8", "application/json"


def read(content_type, *messages, lines=False):
    reader = AnswerReader(content_type)
    for message in messages:
        text = json.dumps(message)
        reader.feed(f"data: {text}\n\n".encode() if content_type == SSE else text.encode())
        if lines:
            reader.feed(b"\n")
    return reader.close()


@pytest.mark.parametrize(
    "messages",
    [
        (
            {"choices": [{"delta": {"role": "assistant", "content": None}}]},
            {"choices": [{"delta": {"content": "a"}}]},
            {"choices": [{"delta": {"reasoning_content": "b"}}]},
            {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "c"}}]}}]},
            {"choices": [], "usage": {}},
        ),
        (
            {"type": "message_start", "message": {"content": []}},
            {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}},
            {"type": "content_block_delta", "delta": {"thinking": "b"}},
            {"type": "content_block_delta", "delta": {"partial_json": "c"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ),
        (
            {"type": "response.created", "response": {"output": []}},
            {"type": "response.output_text.delta", "delta": "a"},
            {"type": "response.function_call_arguments.delta", "delta": "bc"},
            {"type": "response.output_text.done", "text": "a"},
            {"type": "response.completed", "response": {"output": [{"content": []}]}},
        ),
    ],
)
def test_streamed(messages):
    assert read(SSE, *messages) == "abc"


@pytest.mark.parametrize(
    "message",
    [
        {"choices": [{"message": {"content": "abc"}}]},
        {"choices": [{"text": "abc"}]},
        {"type": "message", "content": [{"type": "text", "text": "abc"}]},
        {
            "object": "response",
            "output": [{"content": [{"type": "output_text", "text": "abc"}]}],
        },
        {"content": "abc", "tokens_predicted": 1},
    ],
)
def test_whole(message):
    assert read(JSON, message) == "abc"


def test_ollama_says_one_message_a_line():
    said = [{"message": {"content": "ab"}}, {"message": {"content": "c"}, "done": True}]
    assert read("application/x-ndjson", *said, lines=True) == "abc"
    assert read("application/x-ndjson", {"response": "abc"}, lines=True) == "abc"


@pytest.mark.parametrize("odd", [[], 1, None, {"choices": 1}, {"choices": [1]}, {"delta": 1}])
def test_what_is_odd_has_no_text(odd):
    assert read(SSE, odd) == read(JSON, odd) == ""


def post(url):
    request = Request("POST", "/v1/chat/completions?x=1", (), b'{"model": "m"}')
    record = Exchange(request)
    send(Site(url), request, record)
    return record


def test_a_good_answer_has_usage_text_and_times():
    with Peer(posts=NOT_REUSED) as peer:
        answer = post(peer.url)
    assert (answer.status, answer.error, text_of(answer)) == (200, None, "hi")
    assert (answer.usage.prompt, answer.usage.reused) == (100, None)
    assert 0 < answer.first_byte <= answer.seconds


def test_an_answer_that_is_not_200_is_a_line_without_the_query():
    with Peer(posts=(404, {"error": {"message": "no such model \x1b[1m"}})) as peer:
        answer = post(peer.url)
    assert (answer.status, answer.first_byte) == (404, None)
    where = f"{peer.url}/v1/chat/completions"
    assert answer.error.startswith(f"{where} answered 404 (no such model [1m): ")


def test_an_answer_that_breaks_off_is_an_error_and_not_short():
    with Peer(posts=NOT_REUSED, cut=True) as peer:
        answer = post(peer.url)
    assert (answer.status, "broke off" in answer.error) == (None, True)


def test_nobody_there():
    with pytest.raises(CommandError, match="correct --against"):
        post(NOBODY)
