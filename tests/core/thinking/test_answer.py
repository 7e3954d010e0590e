"""The reasoning in an answer is read in each API, whole and streamed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.thinking.keeping import read, said, said_in

JSON, STREAM = "application/json", "text/event-stream; charset=utf-8"
CALL = ("look", '{"path":"a"}')
THOUGHT = 'First "this",\nthen that.'


def events(*values, end=b"data: [DONE]\n\n"):
    return b"".join(b"data: %s\n\n" % json.dumps(value).encode() for value in values) + end


def chunk(**delta):
    return {"choices": [{"index": 0, "delta": delta}]}


def called(name=None, arguments=None, index=0):
    return chunk(tool_calls=[{"index": index, "function": {"name": name, "arguments": arguments}}])


def whole(name, **more):
    message = {"role": "assistant", "content": "Done.", name: THOUGHT, **more}
    return {"choices": [{"index": 0, "message": message}]}


def chat_stream(name):
    return events(
        chunk(role="assistant", content=None),
        *(chunk(**{name: piece}) for piece in (THOUGHT[:9], THOUGHT[9:])),
        chunk(content="Do"),
        chunk(content="ne."),
        called("look", ""),
        called(None, '{"path'),
        called(None, '":"a"}'),
        {"choices": [], "usage": {"prompt_tokens": 1}},
    )


def block(number, kind, **more):
    start = {"type": kind, **more}
    return {"type": "content_block_start", "index": number, "content_block": start}


def delta(number, kind, name, piece):
    made = {"type": kind, name: piece}
    return {"type": "content_block_delta", "index": number, "delta": made}


def messages_stream(signature=""):
    return events(
        {"type": "message_start", "message": {"content": []}},
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", "thinking", THOUGHT[:5]),
        delta(0, "thinking_delta", "thinking", THOUGHT[5:]),
        delta(0, "signature_delta", "signature", signature),
        block(1, "text", text=""),
        delta(1, "text_delta", "text", "Done."),
        block(2, "tool_use", id="x", name="look", input={}),
        delta(2, "input_json_delta", "partial_json", '{"path":'),
        delta(2, "input_json_delta", "partial_json", '"a"}'),
        {"type": "message_stop"},
        end=b"",
    )


def message(signature=""):
    content = [
        {"type": "thinking", "thinking": THOUGHT, "signature": signature},
        {"type": "text", "text": "Done."},
        {"type": "tool_use", "id": "x", "name": "look", "input": {"path": "a"}},
    ]
    return json.dumps({"content": content}).encode()


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a_chat_answer_and_the_name_that_its_reasoning_has(name):
    calls = [{"id": "x", "function": {"name": CALL[0], "arguments": CALL[1]}}]
    for kind, body in (
        (JSON, json.dumps(whole(name, tool_calls=calls)).encode()),
        (STREAM, chat_stream(name)),
        (STREAM, chat_stream(name).replace(b"\n", b"\r\n")),
    ):
        answer, thought = read(CHAT, kind, body)
        assert answer == said("Done.", [CALL])
        assert (thought.name, json.loads(thought.spelled)) == (name, THOUGHT)


@pytest.mark.parametrize(("kind", "body"), [(JSON, message()), (STREAM, messages_stream())])
def test_a_messages_answer(kind, body):
    answer, thought = read(MESSAGES, kind, body)
    assert answer == said("Done.", [CALL])
    assert (thought.name, json.loads(thought.spelled)) == ("", THOUGHT)


@pytest.mark.parametrize(
    ("kind", "body"), [(JSON, message("s" * 200)), (STREAM, messages_stream("s" * 200))]
)
def test_what_a_vendor_signed_is_left_alone(kind, body):
    assert read(MESSAGES, kind, body) is None


def test_an_answer_that_was_broken_off_is_what_came_of_it():
    """The client may have shown it, and sends that back."""
    body = chat_stream("reasoning").partition(b'"tool_calls"')[0].rpartition(b"data:")[0]
    answer, thought = read(CHAT, STREAM, body)
    assert answer == said("Done.", [])
    assert json.loads(thought.spelled) == THOUGHT


TWO = {"choices": [whole("reasoning")["choices"][0]] * 2}
ONLY = {"choices": [{"message": {"content": "", "reasoning": THOUGHT}}]}
NONE = {"choices": [{"message": {"content": "Done.", "reasoning": ""}}]}


@pytest.mark.parametrize(
    ("dialect", "kind", "body"),
    [
        (CHAT, JSON, json.dumps(TWO).encode()),
        (CHAT, JSON, json.dumps(ONLY).encode()),
        (CHAT, JSON, json.dumps(NONE).encode()),
        (CHAT, JSON, b"{"),
        (CHAT, JSON, b"[]"),
        (CHAT, JSON, b"[" * 100_000),
        (CHAT, JSON, b'{"choices": [7, {"message": 7}]}'),
        (CHAT, STREAM, b"data: {\n\n" + chat_stream("reasoning")),
        (CHAT, STREAM, b""),
        (CHAT, "text/plain", b"hello"),
        (RESPONSES, JSON, message()),
        (None, JSON, message()),
    ],
)
def test_of_what_cannot_be_read_or_given_back_nothing_is_known(dialect, kind, body):
    """Two answers, reasoning alone, none, no JSON, another API."""
    assert read(dialect, kind, body) is None


NAMES = ("choices", "delta", "message", "content", "reasoning", "tool_calls", "function", "index")
BLOCKS = ("type", "content_block", "text", "thinking", "name", "input", "arguments", "signature")
KINDS = ("content_block_start", "content_block_delta", "tool_use", "input_json_delta", "error")
STRANGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*KINDS, "", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, *BLOCKS]), inner, max_size=6)
    ),
)


@given(st.lists(STRANGE, max_size=4), st.sampled_from([CHAT, MESSAGES]))
def test_no_answer_is_too_strange(values, dialect):
    """Whatever a server says, in whichever shape."""
    read(dialect, STREAM, events(*values))
    for value in values:
        read(dialect, JSON, json.dumps(value).encode())


def test_a_lone_surrogate_is_kept_as_it_is():
    """Servers cut text between tokens."""
    body = json.dumps(whole("reasoning") | {}).replace("First", "\\ud83d").encode()
    _, thought = read(CHAT, JSON, body)
    assert json.loads(thought.spelled).startswith("\ud83d")
    assert thought.spelled.isascii()


LOOK = ("look", '{"path": "a.py", "deep": 1.0}')


def chat(content, *calls):
    made = [{"id": "x", "function": {"name": name, "arguments": given}} for name, given in calls]
    return {"role": "assistant", "content": content, **({"tool_calls": made} if made else {})}


def blocks(*made):
    return {"role": "assistant", "content": list(made)}


def text(words):
    return {"type": "text", "text": words}


def use(given):
    return {"type": "tool_use", "id": "y", "name": "look", "input": given}


@pytest.mark.parametrize(
    "message",
    [
        chat("I look.", LOOK),
        chat("I look.\n", LOOK),
        chat([text("I look.")], LOOK),
        chat("I look.", ("look", '{"deep":1,"path":"a.py"}')),
        chat("I look.", ("look", {"deep": 1, "path": "a.py"})),
        blocks(text("I "), text("look."), use({"path": "a.py", "deep": 1})),
        blocks(text("I look."), use({"path": "a.py", "deep": 1.0})),
    ],
)
def test_however_it_is_spelled(message):
    """White space around it, blocks, the order and the numbers of arguments."""
    assert said_in(message) == said("I look.", [LOOK])


@pytest.mark.parametrize(
    "message",
    [
        chat("I looked.", LOOK),
        chat("I look."),
        chat("I look.", LOOK, LOOK),
        chat("I look.", ("look", '{"path": "b.py", "deep": 1.0}')),
        chat("I look.", ("seek", LOOK[1])),
    ],
)
def test_an_edited_message_says_another_thing(message):
    assert said_in(message) != said("I look.", [LOOK])


@pytest.mark.parametrize("content", [None, "", []])
def test_a_call_alone(content):
    """With any of the contents that clients send for none."""
    assert said_in(chat(content, LOOK)) == said("", [LOOK])


@pytest.mark.parametrize("given", ["{", '{"a": NaN}', "[" * 100_000, "", None, 7])
def test_arguments_that_are_no_object_are_compared_as_they_stand(given):
    assert said_in(chat("", ("look", given))) == said("", [("look", given)])


def test_nothing_of_a_strange_message_raises():
    strange = {"content": [7, {"type": "text"}, {}], "tool_calls": [7, {}, {"function": 7}]}
    assert said_in(strange) == said("", []) == said_in(json.loads("{}"))
