"""Whatever comes is translated or refused, and each turn extends the one before."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.dialects import messages as spoken
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.reading import TranslationError
from cacheproxy.translate.stream import COMMENT, CommentFinder
from cacheproxy.translate.translation import chat_of
from tests.translate.streams import assert_cuts_do_not_matter
from tests.translate.values import JSON, TEXT

from .chunks import DONE, assert_valid, call, chunk, data, exchange, message_of, usage
from .conversations import MESSAGES, chat, elements, spelt, turned
from .test_transcripts import PATHS

# Requests.

KEYS = st.sampled_from(
    [
        *("system", "messages", "tools", "tool_choice", "stop_sequences", "metadata", "stream"),
        *("role", "content", "type", "text", "source", "input", "id", "name", "tool_use_id"),
        *("input_schema", "max_tokens", "temperature", "output_config", "format", "model"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "system", "text", "image", "document", "tool_use", "tool_result"),
        *("thinking", "base64", "url", "json_schema", "tool", "any", "web_search_20250305"),
    ]
)
NEARLY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


def refused_or_written(body):
    """Nothing but TranslationError is raised, and what comes out is JSON."""
    try:
        asked = turned(body)
    except TranslationError:
        return False
    json.loads(asked.body.decode(), parse_constant=pytest.fail)
    return True


SHAPED = st.fixed_dictionaries(
    {"messages": st.lists(NEARLY, max_size=3)},
    optional={"tools": st.lists(NEARLY, max_size=3), "system": NEARLY, "tool_choice": NEARLY},
)
BYTES = st.binary(max_size=60) | st.text(string.printable, max_size=60).map(str.encode)


@pytest.mark.parametrize(
    "body",
    [st.dictionaries(KEYS, NEARLY).map(json.dumps), SHAPED.map(json.dumps), BYTES],
    ids=["any JSON", "in messages and tools", "bytes"],
)
@given(st.data())
def test_no_body_breaks_it(body, data):
    """Whatever stands where; nor what is no JSON at all."""
    refused_or_written(data.draw(body))


@given(MESSAGES, TEXT, JSON)
def test_what_is_right_is_taken(messages, system, more):
    """Every conversation made of the blocks we know is translated."""
    body = spelt({"messages": messages, "system": system, "more": more})
    assert refused_or_written(body)


@given(MESSAGES, MESSAGES, TEXT, st.booleans())
def test_a_turn_extends_the_one_before(before, more, system, ascii_only):
    """Its chat messages begin with those of the turn before, in their exact text.

    Even where the new messages hold what msgspec cannot read, and another reader steps in.
    """
    first = {"system": system, "messages": before}
    second = {"system": system, "messages": before + more}
    texts = [
        turned(spelt(body, ensure_ascii=True) if ascii_only else spelt(body)).body.decode()
        for body in (first, second)
    ]
    earlier, later = (elements(one, "messages") for one in texts)
    assert later[: len(earlier)] == earlier


@given(MESSAGES)
def test_both_readers_and_writers_spell_alike(messages):
    """A lone surrogate elsewhere in the body changes nothing in the rest."""
    clean = json.loads(spelt(messages).replace("\\ud", "\\u0"))  # no surrogates at all
    body = {"messages": clean}
    odd = {"messages": [*clean, {"role": "user", "content": "cut: \ud83d"}]}
    usual = elements(turned(body).body.decode(), "messages")
    other = elements(turned(odd).body.decode(), "messages")
    assert other == [*usual, '{"role":"user","content":"cut: \\ud83d"}']


def test_captured_turns_are_translated_a_message_at_a_time(captured):
    """Each by itself, whatever its breakpoints and form of text: so a turn extends the one before.

    The last request of each session has the messages of all.
    """
    last = {
        (name, session_of(one).id, bool(one.json.get("tools"))): one.json
        for name, requests in captured.items()
        for one in requests
        if one.dialect is spoken.MESSAGES and endpoint_of(one.path).purpose.evaluates
    }
    assert len(last) > 20
    for body in last.values():
        messages = chat(body)["messages"]
        assert chat(plain(body))["messages"] == messages
        count = len(body["messages"]) // 2
        begun = chat(body | {"messages": body["messages"][:count]})["messages"]
        assert messages[: len(begun)] == begun


def plain(value):
    """The same without breakpoints, and each text in a block."""
    if isinstance(value, dict):
        if isinstance(value.get("content"), str):
            value = value | {"content": [{"type": "text", "text": value["content"]}]}
        return {key: plain(inner) for key, inner in value.items() if key != "cache_control"}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


# Answers.

ANSWER = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("id", "model", "usage", "timings", "error", "object", "choices"), JSON),
) | st.builds(
    lambda message, finish: {"choices": [{"message": message, "finish_reason": finish}]},
    st.fixed_dictionaries(
        {},
        optional={
            "content": JSON,
            "reasoning": JSON,
            "refusal": JSON,
            "function_call": JSON,
            "tool_calls": JSON
            | st.lists(
                st.fixed_dictionaries(
                    {
                        "id": JSON,
                        "function": st.fixed_dictionaries({"name": JSON, "arguments": JSON}),
                    }
                )
            ),
        },
    ),
    JSON,
)


@given(ANSWER | JSON, st.integers(200, 599))
def test_no_answer_breaks_it(value, status):
    """Whatever a server says: a valid message, a valid error, or TranslationError."""
    try:
        got = exchange().answer(status, json.dumps(value).encode())
    except TranslationError:
        return
    said = json.loads(got.body)
    assert said["type"] in ("message", "error")
    if said["type"] == "message":
        assert_valid("Message", said)
    else:
        assert got.status >= 300


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


@given(st.lists(st.text(":ab\r\n", max_size=6).map(str.encode), max_size=6))
def test_pieces_of_comments_make_no_difference(pieces):
    """As many comments, and the same stream."""
    whole = b"".join(pieces)
    lines = whole.replace(b"\r", b"\n").split(b"\n")
    comments = sum(line.startswith(b":") for line in lines)
    for way in (pieces, [whole], [whole[at : at + 1] for at in range(len(whole))]):
        finder = CommentFinder()
        found = [part for piece in way for part in finder.cut(piece)]
        assert b"".join(found) == whole
        assert found.count(COMMENT) == comments


# Any API's prompt as a chat.

_NAMES = """type role content text name arguments call_id output summary message user assistant
system tool function_call reasoning function_call_output tools input messages function"""
_names = st.sampled_from(_NAMES.split())
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=5),
    max_leaves=20,
)


@given(api=st.sampled_from(sorted(PATHS)), body=st.dictionaries(_names, _values))
def test_whatever_comes_is_a_chat_or_nothing(api, body):
    """And can be written as JSON."""
    found = chat_of(Request("POST", PATHS[api], (), json.dumps(body).encode()))
    if found is not None:
        assert isinstance(found["messages"], list)
        json.dumps(found)
