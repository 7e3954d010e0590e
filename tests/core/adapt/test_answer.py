"""The reasoning in an answer is read in each API, whole and streamed."""

import json

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.hearing import Hearing
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.ollama import OLLAMA
from cacheproxy.core.dialects.responses import RESPONSES
from tests import transcript

JSON, STREAM = "application/json", "text/event-stream; charset=utf-8"
THOUGHT = 'First "this",\nthen that.'
LOOK = ("look", '{"path": "a.py", "deep": 1.0}')


def read(dialect, kind, body, *, is_whole=True):
    """What is heard of an answer that comes in two pieces."""
    found = []
    reader = Hearing(dialect, kind, (), found.append)
    for piece in (body[:7], body[7:]):
        reader.feed(piece)
        reader.settle()
    reader.close(is_whole=is_whole)
    reader.settle()
    (heard,) = found
    return heard


def body(value):
    return json.dumps(value).encode()


def events(*values, end=b"data: [DONE]\n\n"):
    return b"".join(b"data: %s\n\n" % body(value) for value in values) + end


def chunk(**delta):
    return {"choices": [{"index": 0, "delta": delta}]}


def called(name=None, arguments=None):
    return chunk(tool_calls=[{"index": 0, "function": {"name": name, "arguments": arguments}}])


def chat(content, *calls, **more):
    made = [{"id": "x", "function": {"name": name, "arguments": given}} for name, given in calls]
    calling = {"tool_calls": made} if made else {}
    return {"role": "assistant", "content": content, **calling, **more}


def whole(*messages):
    return body({"choices": [{"index": 0, "message": message} for message in messages]})


def chat_stream(name):
    return events(
        chunk(role="assistant", content=None),
        *(chunk(**{name: piece}) for piece in (THOUGHT[:9], THOUGHT[9:])),
        *(chunk(content="Do"), chunk(content="ne.")),
        *(called("look", ""), called(None, '{"path'), called(None, '":"a"}')),
        {"choices": [], "usage": {"prompt_tokens": 1}},
    )


def block(kind, **more):
    return {"type": kind, **more}


def messages_stream(signature=""):
    """A Messages answer in events: three blocks, each begun and then told in deltas."""

    def told(index, start, *deltas):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}

    return events(
        {"type": "message_start", "message": {"content": []}},
        *told(
            0,
            block("thinking", thinking="", signature=""),
            block("thinking_delta", thinking=THOUGHT[:5]),
            block("thinking_delta", thinking=THOUGHT[5:]),
            block("signature_delta", signature=signature),
        ),
        *told(1, block("text", text=""), block("text_delta", text="Done.")),
        *told(
            2,
            block("tool_use", id="x", name="look", input={}),
            block("input_json_delta", partial_json='{"path":'),
            block("input_json_delta", partial_json='"a"}'),
        ),
        {"type": "message_stop"},
        end=b"",
    )


def message(signature=""):
    content = [
        block("thinking", thinking=THOUGHT, signature=signature),
        block("text", text="Done."),
        block("tool_use", id="x", name="look", input={"path": "a"}),
    ]
    return body({"content": content})


def test_what_is_read():
    transcript.holds("answer.txt", globals())


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


@given(st.lists(STRANGE, max_size=4), st.sampled_from([CHAT, MESSAGES, RESPONSES, OLLAMA]))
def test_no_answer_is_too_strange(values, dialect):
    """Whatever a server says, in whichever shape and API."""
    read(dialect, STREAM, events(*values))
    for value in values:
        read(dialect, JSON, body(value))
