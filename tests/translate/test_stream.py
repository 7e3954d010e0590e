"""A stream of chunks as a stream of message events."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("anthropic")

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.translate.reading import TranslationError
from tests.translate.streams import assert_cuts_do_not_matter, through
from tests.translate.values import JSON, TEXT

from .chunks import DONE, call, chunk, data, events, exchange, message_of, usage

SAID = [{"type": "text", "text": "Hello"}]


def test_text():
    """The shape that every client knows, event by event."""
    pieces = [
        chunk({"role": "assistant", "content": None}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        usage(),
        DONE,
    ]
    start, begin, first, second, end, last, stop = events(through(exchange().stream(), pieces))
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    zeros = {"input_tokens": 0, "output_tokens": 0}
    none = {"stop_reason": None, "stop_sequence": None, "usage": zeros}
    assert start == {"type": "message_start", "message": message | none}
    empty = {"type": "text", "text": ""}
    assert begin == {"type": "content_block_start", "index": 0, "content_block": empty}
    for delta, text in ((first, "Hel"), (second, "lo")):
        said = {"type": "text_delta", "text": text}
        assert delta == {"type": "content_block_delta", "index": 0, "delta": said}
    assert end == {"type": "content_block_stop", "index": 0}
    assert last == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 7, "input_tokens": 40, "cache_read_input_tokens": 60},
    }
    assert stop == {"type": "message_stop"}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_comes_before_the_text(name):
    """It ends with a signature, an empty one: clients wait for it."""
    sent = through(
        exchange().stream(),
        [chunk({name: "h"}), chunk({name: "m", "content": "Hello"}), chunk({}, "stop"), DONE],
    )
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert message_of(chunk({name: "hm"}), chunk({"content": "Hello"}, "stop"))["content"] == [
        thinking,
        *SAID,
    ]
    kinds = [
        event["delta"]["type"] for event in events(sent) if "index" in event and "delta" in event
    ]
    assert kinds == ["thinking_delta", "thinking_delta", "signature_delta", "text_delta"]


def test_a_call_goes_on_as_it_comes():
    """The pieces of its arguments are joined to the model's own text."""
    stream = exchange().stream()
    begun = stream.feed(chunk(call(0, id="call_a", name="look")))
    assert [event["type"] for event in events(begun)] == ["message_start", "content_block_start"]
    pieces = ['{"wh', 'ere":  1.0,', '"é": "\\u00e9"}']
    sent = b"".join(stream.feed(chunk(call(0, piece))) for piece in pieces)
    assert [event["delta"]["partial_json"] for event in events(sent)] == pieces


def test_calls_that_follow_each_other_go_on_as_they_come():
    """The second begins when the first is whole: nothing waits for the end of the answer."""
    stream = exchange().stream()
    stream.feed(chunk(call(0, '{"a":1}', id="a", name="one")))
    sent = events(stream.feed(chunk(call(1, "", id="b", name="two"))))
    assert [event["type"] for event in sent] == ["content_block_stop", "content_block_start"]
    sent = events(stream.feed(chunk(call(1, '{"b"'))))
    assert sent[0]["delta"]["partial_json"] == '{"b"'


def calls_of(*pieces):
    message = message_of(*pieces, chunk({}, "tool_calls"), DONE)
    assert message["stop_reason"] == "tool_use"
    return [(block["id"], block["name"], block.get("json", "")) for block in message["content"]]


def test_servers_that_count_badly():
    """All calls with the index 0, or without one, are told apart by their ids or names."""
    for index in (0, None):
        assert calls_of(
            chunk(call(index, '{"a":1}', id="a", name="one")),
            chunk(call(index, '{"b":', id="b", name="two")),
            chunk(call(index, "2}", id="b", name="two")),
        ) == [("a", "one", '{"a":1}'), ("b", "two", '{"b":2}')]
    uncounted = [{"tool_calls": [{"function": {"name": name, "arguments": {}}}]} for name in "ab"]
    (first, *_), (second, *_) = calls_of(*map(chunk, uncounted))
    assert first != second


def test_a_call_without_an_id_gets_one_that_follows_from_the_request():
    """The same request, the same id; the next turn's is another."""

    def id_of(**asked):
        [block] = message_of(
            chunk({"function_call": {"name": "look", "arguments": "{}"}}, "function_call"), **asked
        )["content"]
        return block["id"]

    later = {"messages": [{"role": "user", "content": "more"}]}
    assert id_of() == id_of()
    assert id_of(**later) != id_of()
    assert id_of().startswith("toolu_")


def test_the_text_after_a_call_is_a_block_of_its_own():
    """While the call's arguments are not whole it waits."""
    message = message_of(
        chunk({"content": "a"}),
        chunk(call(0, "{", id="x", name="one")),
        chunk({"content": "b"}),
        chunk(call(0, "}")),
        chunk({"content": "c"}, "stop"),
    )
    kinds = [block["type"] for block in message["content"]]
    assert kinds == ["text", "tool_use", "text"]
    assert message["content"][2]["text"] == "bc"
    assert message["stop_reason"] == "tool_use"


def test_what_the_model_wrote_is_remembered():
    """Arguments that are no JSON object are not: no server takes them back."""
    spellings = Spellings()
    pieces = [
        chunk(call(0, '{"a": ', id="a", name="one")),
        chunk(call(1, '{"b": ', id="b", name="two")),
        chunk(call(0, " 1.0}")),
        chunk({}, "length"),
    ]
    through(exchange(spellings).stream(), pieces)
    assert spellings.find("a", '{"a":1}', {"a": 1}) == '{"a":  1.0}'
    assert spellings.find("b", "gone", {}) == "gone"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"finish_reason": "stop"}, ("end_turn", None)),
        ({"finish_reason": "length"}, ("max_tokens", None)),
        ({"finish_reason": "content_filter"}, ("refusal", None)),
        ({"finish_reason": "tool_calls"}, ("end_turn", None)),  # but there was none
        ({"finish_reason": "stop", "stop_reason": "END"}, ("stop_sequence", "END")),
        ({"finish_reason": "stop", "matched_stop": "END"}, ("stop_sequence", "END")),
        ({"finish_reason": "stop", "matched_stop": "</s>"}, ("end_turn", None)),
        ({"finish_reason": "stop", "stop_reason": 128009}, ("end_turn", None)),
        ({"finish_reason": "brand_new"}, ("end_turn", None)),
    ],
)
def test_stop_reasons(choice, expected):
    """A stop sequence is named where the server names one that was asked for."""
    last = data({"choices": [{"index": 0, "delta": {"content": "x"}, **choice}]})
    message = message_of(last, stop_sequences=["END"])
    assert (message["stop_reason"], message["stop_sequence"]) == expected


def test_a_refusal_is_text():
    """It is what the client shows."""
    message = message_of(chunk({"refusal": "I won"}), chunk({"refusal": "'t"}, "stop"))
    assert message["content"] == [{"type": "text", "text": "I won't"}]
    assert message["stop_reason"] == "refusal"


def test_usage_in_other_places():
    """In the last chunk, in llama.cpp's timings, or nowhere."""
    last = chunk({}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 2})
    assert message_of(last)["usage"]["input_tokens"] == 5
    timed = chunk({}, "stop", timings={"cache_n": 3, "prompt_n": 4, "predicted_n": 2})
    counted = message_of(timed)["usage"]
    assert (counted["cache_read_input_tokens"], counted["input_tokens"]) == (3, 4)
    assert counted["output_tokens"] == 2
    sent = events(through(exchange().stream(), [chunk({}, "stop")]))
    assert sent[-2]["usage"] == {"output_tokens": 0}
    odd = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}
    assert message_of(chunk({}, "stop", usage=odd))["usage"]["input_tokens"] == 5


def test_what_servers_send_besides():
    """Roles alone, nulls, empty texts, other choices, parts of a content, no [DONE]."""
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}
    nulls = {"role": "assistant", "content": None, "tool_calls": None, "refusal": None}
    message = message_of(
        b"data: \n\n",
        data({"choices": [], "prompt_filter_results": []}),
        chunk(nulls),
        chunk({"content": ""}),
        data({"choices": [other]}),
        data({"choices": [{"delta": {"content": [{"type": "text", "text": "Hello"}]}}]}),
        data({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}),
    )
    assert message["content"] == SAID
    assert message_of(chunk({"content": ""}, "stop"), DONE)["content"] == []


def test_comments_and_pings_are_pings():
    """Where they stand, but never in an event of ours; nothing comes after the end."""
    stream = exchange().stream()
    pieces = [
        b": wait\n\n",
        chunk({"content": "a"}),
        b":\n\n:\r\n\r\nevent: ping\ndata: {}\n\n",
        chunk({}, "stop") + DONE + b":\n\n",
    ]
    kinds = [event["type"] for event in events(through(stream, pieces))]
    assert kinds == [
        *("ping", "message_start", "content_block_start", "content_block_delta"),
        *("ping", "ping", "ping", "content_block_stop", "message_delta", "message_stop"),
    ]


ERRORS = {
    "object": (data({"error": {"message": "boom", "code": 503}}), "api_error"),
    "named": (b'event: error\ndata: {"message": "boom"}\n\n', "api_error"),
    "text": (b"event: error\ndata: boom\n\n", "api_error"),
    "vLLM's": (data({"object": "error", "message": "boom", "code": 400}), "invalid_request_error"),
    "rate": (data({"error": {"message": "boom", "code": 429}}), "rate_limit_error"),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize("before", [[], [chunk({"content": "a"})]], ids=["at once", "later"])
def test_an_error_in_mid_stream_is_told(case, before):
    """In the client's shape, and it is the last that comes."""
    raw, kind = ERRORS[case]
    sent = events(through(exchange().stream(), [*before, raw, chunk({"content": "b"}), DONE]))
    assert sent[-1] == {"type": "error", "error": {"type": kind, "message": "boom"}}
    assert [event["type"] for event in sent].count("error") == 1
    assert "message_stop" not in [event["type"] for event in sent]


CUT = {
    "nothing": [],
    "no reason": [chunk({"content": "a"})],
    "an empty reason": [chunk({"content": "a"}, "")],
    "no reason, but done": [chunk({"content": "a"}), DONE],
    "done alone": [DONE],
    "given up": [chunk({"content": "a"}, "abort")],
    "a call without a name": [chunk(call(0, "{}")), chunk({}, "tool_calls")],
    "no JSON": [chunk({"content": "a"}), b"data: {oops\n\n"],
    "no object": [b"data: [1]\n\n"],
    "a call that goes on": [
        chunk(call(0, "{}", id="a", name="n")),
        chunk(call(1, "{}", id="b", name="n")),
        chunk(call(0, "{}")),
        chunk({}, "tool_calls"),
    ],
    "half an event": [chunk({"content": "a"}), chunk({}, "stop")[:-2]],
}


@pytest.mark.parametrize("case", CUT)
def test_a_part_is_never_taken_for_the_whole(case):
    """What made sense is handed out, then TranslationError breaks the answer off."""
    stream = exchange().stream()
    sent = stream.feed(b"".join(CUT[case]))
    with pytest.raises(TranslationError):
        stream.close()
    kinds = [event["type"] for event in events(sent)]
    assert "message_stop" not in kinds
    if b'"content": "a"' in b"".join(CUT[case]):
        assert "content_block_delta" in kinds


def test_a_surrogate_cut_in_two_goes_on_as_it_is():
    """A client that joins the texts joins the character."""
    halves = [b'{"content":"\\ud83d"}', b'{"content":"\\ude00"}']
    pieces = [b'data: {"choices":[{"index":0,"delta":%s}]}\n\n' % half for half in halves]
    sent = through(exchange().stream(), [*pieces, chunk({}, "stop")])
    assert b'"text":"\\ud83d"' in sent
    assert b'"text":"\\ude00"' in sent


DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, TEXT),
    st.builds(lambda text: {"reasoning_content": text}, TEXT),
    st.builds(lambda text: {"refusal": text}, TEXT),
    st.builds(
        lambda index, piece, more: call(index, piece, **more),
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from(["", "{", "}", '{"a":1}', ' "x"', "[", "]"]),
        st.sampled_from([{}, {"id": "a", "name": "one"}, {"id": "b", "name": "two"}]),
    ),
    JSON,
)
PIECES = st.lists(
    st.one_of(
        st.builds(chunk, DELTAS),
        st.builds(chunk, DELTAS, st.sampled_from(["stop", "length", "tool_calls", "error", 7])),
        st.just(usage()),
        st.just(DONE),
        st.sampled_from([b":\n\n", b": x\r\n", b"\r\r", b"event: ping\ndata: {}\n\n"]),
        st.builds(data, JSON),
        st.builds(lambda value: data({"choices": [value]}), JSON),
        st.builds(lambda value: data({"error": value}), JSON),
        st.binary(max_size=8),
    ),
    max_size=8,
)


@given(PIECES)
def test_whole_and_byte_by_byte_are_the_same(pieces):
    """However the network cuts it; and nothing but TranslationError is raised."""
    assert_cuts_do_not_matter(lambda: exchange().stream(), pieces)


@given(
    st.lists(st.sampled_from("abc") | st.sampled_from([0, 1, 2]), max_size=12),
    st.lists(st.dictionaries(TEXT, st.integers() | TEXT, max_size=3), min_size=3, max_size=3),
    st.integers(1, 9),
)
def test_every_mixture_makes_a_valid_message(order, inputs, size):
    """Texts and three calls in any interleaving: all of it arrives, byte for byte, in order."""
    written = [json.dumps(value, indent=1) for value in inputs]
    rest = [[text[at : at + size] for at in range(0, len(text), size)] for text in written]
    pieces, texts = [], ""
    begun = []
    for step in [*order, *(n for n in (0, 1, 2) for _ in written[n])]:
        if isinstance(step, str):
            texts += step
            pieces.append(chunk({"content": step}))
        elif rest[step]:
            first = {} if step in begun else {"id": f"call_{step}", "name": f"tool{step}"}
            begun += [step] if first else []
            pieces.append(chunk(call(step, rest[step].pop(0), **first)))
    message = message_of(*pieces, chunk({}, "tool_calls"), usage(), DONE)
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    assert [block["id"] for block in calls] == [f"call_{step}" for step in begun]
    assert [block["json"] for block in calls] == [written[step] for step in begun]
    assert "".join(block.get("text", "") for block in message["content"]) == texts
