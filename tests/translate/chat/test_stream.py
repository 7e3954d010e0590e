"""A stream of message events as a stream of chunks."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

pytest.importorskip("openai")

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.translate.common.translation import TranslationError
from tests.translate.common.streams import assert_cuts_do_not_matter, feed_all, through
from tests.translate.common.values import JSON, TEXT

from .events import (
    ERROR,
    FUNCTIONS,
    begin,
    call,
    chunks,
    delta,
    end,
    event,
    exchange,
    made,
    start,
    stop,
    text,
    thinking,
)

PING = b": ping\n\n"
ASKED = {"stream_options": {"include_usage": True}}
SAID = {"role": "assistant", "content": "Hello"}


def test_text():
    """The shape that every client knows, chunk by chunk."""
    sent = through(exchange(**ASKED).stream(), [start(), text(0, "Hel", "lo"), end()])
    same = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1234, "model": "m"}

    def chunk(delta, finish=None):
        return same | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    assert chunks(sent) == [
        chunk({"role": "assistant", "content": None}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        same | {"choices": [], "usage": usage},
    ]
    assert sent.endswith(b"\n\ndata: [DONE]\n\n")


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_usage_comes_only_where_it_was_asked_for(options):
    """Some clients do not expect a chunk without choices."""
    assert made(start(), text(0, "Hello"), end(), stream_options=options) == (SAID, "stop", None)


def test_everything_comes_at_once():
    """Nothing waits for the end of a block."""
    stream = exchange().stream()
    stream.feed(start() + begin(0, "text", text=""))
    assert b'{"content":"Hel"}' in stream.feed(delta(0, "text_delta", text="Hel"))
    assert stream.feed(stop(0)) == b""
    given = stream.feed(begin(1, "tool_use", id="t", name="look", input={}))
    assert b'"name":"look","arguments":""' in given
    assert b'{"arguments":"{"}' in stream.feed(delta(1, "input_json_delta", partial_json="{"))


def test_thinking():
    """Beside the text; its signature means nothing here. A block may begin with a first piece."""
    pieces = [start(), thinking(0, "h", "m"), text(1, "Hello"), end()]
    assert made(*pieces)[0] == SAID | {"reasoning_content": "hm"}
    first = [begin(0, "thinking", thinking="hm"), begin(1, "text", text="Hello")]
    assert made(start(), *first, end())[0] == SAID | {"reasoning_content": "hm"}


def test_calls():
    """By their own count, whatever the blocks' is; arguments byte for byte."""
    pieces = ['{"wh', 'ere":  1.0,', '"é": "\\u00e9"}']
    calls = [call(1, *pieces), call(3, '{"b":2}', name="other")]
    message, finish, _ = made(start(), text(0, "I"), *calls, end("tool_use"))
    assert finish == "tool_calls"
    assert message["tool_calls"] == [
        {
            "index": 0,
            "id": "toolu_1",
            "type": "function",
            "function": {"name": "look", "arguments": "".join(pieces)},
        },
        {
            "index": 1,
            "id": "toolu_3",
            "type": "function",
            "function": {"name": "other", "arguments": '{"b":2}'},
        },
    ]


def test_blocks_that_overlap_keep_their_arguments():
    """The API does not send such; a server may."""
    pieces = [
        begin(0, "tool_use", id="a", name="one", input={}),
        begin(1, "tool_use", id="b", name="two", input={}),
        delta(1, "input_json_delta", partial_json='{"b":1}'),
        delta(0, "input_json_delta", partial_json='{"a":1}'),
        stop(0) + stop(1),
    ]
    message = made(start(), *pieces, end("tool_use"))[0]
    given = [one["function"]["arguments"] for one in message["tool_calls"]]
    assert given == ['{"a":1}', '{"b":1}']


def test_a_call_without_arguments_has_an_empty_object():
    """Clients read the arguments as JSON."""
    for one in (call(0), call(0, "")):
        message = made(start(), one, end("tool_use"))[0]
        assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_arguments_given_all_at_once_keep_their_text():
    """Some servers put them where the block begins."""
    block = '{"type":"tool_use","id":"a","name":"n","input":{ "b":1.0,"a":"\\ud83d"}}'
    value = '{"type":"content_block_start","index":0,"content_block":' + block + "}"
    pieces = [start(), f"data: {value}\n\n".encode(), stop(0), end("tool_use")]
    [one] = made(*pieces)[0]["tool_calls"]
    assert one["function"]["arguments"] == '{ "b":1.0,"a":"\\ud83d"}'


def test_function_calls_of_old():
    """For a client that knows nothing else; of several calls it gets the first."""
    calls = [call(0, '{"a"', ":1}"), call(1, "{}", name="other")]
    message, finish, _ = made(start(), *calls, end("tool_use"), **FUNCTIONS)
    assert message == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "look", "arguments": '{"a":1}'},
    }
    assert finish == "function_call"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("something_new", "stop"),
        ("tool_use", "stop"),  # without a call
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        (7, "stop"),
        (None, "stop"),
    ],
)
def test_finish_reasons(reason, finish):
    """Every stop reason of the API, and others."""
    assert made(start(), text(0, "Hello"), end(reason)) == (SAID, finish, None)
    called = "tool_calls" if finish == "stop" else finish  # calls decide, unless it was cut short
    assert made(start(), call(0, "{"), end(reason))[1] == called
    assert made(start(), text(0, "Hello"), event("message_stop")) == (SAID, "stop", None)


def test_what_is_new_to_us_is_left_out():
    """Events, blocks and deltas."""
    pieces = [
        event("surprise", index=0),
        b"data: {}\n\nid: 7\n\n",
        begin(0, "server_tool_use", id="s", name="web_search", input={"q": 1}),
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
        begin(1, "web_search_tool_result", tool_use_id="s", content=[]) + stop(1),
        delta(2, "citations_delta", citation={}),
        begin(2, "redacted_thinking", data="x") + stop(2),
        event("content_block_delta", index=2),
        event("content_block_start", index=2),
        text(3, "Hello"),
    ]
    assert made(start(), *pieces, end()) == (SAID, "stop", None)


def test_ids_and_names_that_are_not_given():
    """The same request gets the same ids, another gets others; the model is the client's word."""
    pieces = [start(id=None, model=None), call(0, "{}", id=None), end()]
    found = [chunks(through(exchange(user=user).stream(), pieces)) for user in ("a", "a", "b")]
    assert found[0] == found[1]
    ids = [(one[0]["id"], one[1]["choices"][0]["delta"]["tool_calls"][0]["id"]) for one in found]
    assert set(ids[0]).isdisjoint(ids[2])
    assert {value["model"] for value in found[0]} == {"asked"}


def test_pings_and_comments_are_comments():
    """They keep the connection alive, from the first moment to the end of the answer."""
    stream = exchange().stream()
    assert stream.feed(b":\n\n") == PING
    assert stream.feed(event("ping")) == PING
    assert stream.feed(start()).count(PING) == 0
    assert stream.feed(b": alive\r\n\r\n") == PING
    stream.feed(end())
    assert stream.feed(b":\n\n" + event("ping")) == b""
    assert stream.close() == b""


@pytest.mark.parametrize("before", [b"", start() + text(0, "a")])
def test_an_error_in_mid_stream(before):
    """What OpenAI's SDKs raise on; after it nothing comes, and the end is no error."""
    stream = exchange().stream()
    stream.feed(before)
    error = {"type": "overloaded_error", "message": "Overloaded"}
    sent = stream.feed(event("error", error=error) + text(1, "b") + end())
    [said] = sent.split(b"\n\n")[:-1]
    value = json.loads(said.removeprefix(b"data: "))["error"]
    ERROR.validate_python(value, strict=True)
    assert value == {
        "message": "Overloaded",
        "type": "server_error",
        "param": None,
        "code": "server_overloaded",
    }
    assert stream.feed(b"anything") == stream.close() == b""


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [event("ping")],
        [b"data: [DONE]\n\n"],
        [start()],
        [start(), text(0, "Hello")],
        [start(), event("message_delta", delta={"stop_reason": "end_turn"})],
        [start(), end()[:-1]],
        [start(), event("message_delta", delta={}), b"data: [DONE]\n\n"],
    ],
)
def test_a_stream_that_breaks_off_is_no_answer(pieces):
    """Without message_stop it has not ended, and the client never hears that it had."""
    sent, error = feed_all(exchange().stream(), pieces)
    assert b"[DONE]" not in sent
    assert "ended before" in error


@pytest.mark.parametrize(
    "piece",
    [
        b"data: {\n\n",
        b"data: []\n\n",
        b"data: 7\n\n",
        start(),
        call(0, name=""),
        call(0, name=None),
        event("content_block_start", content_block={"type": "tool_use", "name": "n"}),
        event("content_block_delta", delta={"type": "input_json_delta"}),
        event("content_block_stop"),
    ],
)
def test_what_makes_no_sense_is_an_error(piece):
    """After what made sense was handed out; then nothing comes any more."""
    stream = exchange().stream()
    assert b'"Hello"' in stream.feed(start() + text(0, "Hello") + piece + end())
    for _ in range(2):
        with pytest.raises(TranslationError, match="the server"):
            stream.feed(b"")
    with pytest.raises(TranslationError, match="the server"):
        stream.close()


@pytest.mark.parametrize("piece", [text(0, "Hello"), end(), event("message_stop")])
def test_an_answer_begins_with_its_beginning(piece):
    """Else it is none."""
    assert feed_all(exchange().stream(), [piece]) == (
        b"",
        "the server's events are not in their order",
    )


PIECES = st.one_of(
    st.just(start()),
    st.just(event("ping")),
    st.just(b": c\r\n\r\n"),
    st.just(b"data: [DONE]\r\r"),
    st.builds(text, st.integers(0, 2), TEXT, TEXT),
    st.builds(thinking, st.integers(0, 2), TEXT),
    st.builds(call, st.integers(0, 2), TEXT, TEXT),
    st.builds(end),
    st.builds(lambda value: b"data: %s\n\n" % json.dumps(value).encode(), JSON),
    st.builds(
        lambda kind, value: event(kind, delta=value, index=0, message=value, content_block=value),
        st.sampled_from(["message_start", "content_block_start", "message_delta", "error"]),
        st.dictionaries(st.sampled_from(["type", "text", "usage", "id", "name", "input"]), JSON),
    ),
)


@given(st.lists(PIECES, max_size=6), st.booleans(), st.data())
def test_how_a_stream_is_cut_makes_no_difference(pieces, begun, data):
    """At once, byte by byte or anyhow: the same comes out, and the same is wrong."""
    whole = b"".join([start()] * begun + pieces)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5).map(sorted))
    anyhow = [whole[a:b] for a, b in pairwise([0, *cuts, len(whole)])]
    expected = assert_cuts_do_not_matter(lambda: exchange().stream(), anyhow)
    if expected[1] is None and b'{"error":' not in expected[0]:
        chunks(expected[0])


@given(st.lists(TEXT, max_size=5), st.lists(TEXT, max_size=5))
def test_texts_and_arguments_arrive_as_they_are(texts, arguments):
    """All characters: quotes, controls, lone surrogates."""
    message = made(start(), text(0, *texts), call(1, *arguments), end())[0]
    assert (message["content"] or "") == "".join(texts)
    given = message["tool_calls"][0]["function"]["arguments"]
    assert given == ("".join(arguments) or "{}")
