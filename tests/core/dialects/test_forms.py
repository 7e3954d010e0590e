"""An answer's other form, signs of life and deferred errors, of each API that streams events.

What the official SDKs make of them is tested in tests/sdk/test_forms.py.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from tests import transcript

from . import forms
from .forms import STREAMS, response, streamed, whole

each = pytest.mark.parametrize("name", STREAMS)
TEXTS = st.text(max_size=9)
VALUES = st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS | st.lists(TEXTS, max_size=2))
CALLS = st.fixed_dictionaries({
    "id": TEXTS.filter(bool), "type": st.just("function"),
    "function": st.fixed_dictionaries({"name": TEXTS.filter(bool), "arguments": TEXTS}),
})  # fmt: skip
SAID = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": TEXTS},
    optional={
        "reasoning_content": TEXTS,
        "tool_calls": st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda call: call["id"]),
    },
) | st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none(), "refusal": TEXTS},
)
BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": TEXTS}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": TEXTS, "name": TEXTS,
                           "input": VALUES}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": TEXTS}),
)  # fmt: skip
PARTS = st.fixed_dictionaries({"type": st.just("output_text"), "text": TEXTS})
ITEMS = st.one_of(
    st.fixed_dictionaries({"type": st.just("message"), "id": TEXTS, "content": st.lists(PARTS)}),
    st.fixed_dictionaries({"type": st.just("function_call"), "id": TEXTS, "name": TEXTS,
                           "arguments": TEXTS}),
    st.fixed_dictionaries({"type": st.just("web_search_call"), "id": TEXTS}),
)  # fmt: skip


def test_what_the_forms_of_an_answer_are():
    transcript.holds("forms.txt", vars(forms) | globals())


def test_which_refusals_say_that_a_prompt_is_too_long():
    transcript.holds("overflows.txt", vars(forms) | globals())


@each
def test_a_whole_body_and_its_stream_say_the_same(name):
    """There and back it is the same body."""
    dialect, events = STREAMS[name]
    body = whole(dialect, *events)
    assert whole(dialect, streamed(dialect, body)) == body


@each
def test_a_stream_that_was_cut_makes_no_body(name):
    """Wherever, as long as its end is missing: a part is never taken for the whole."""
    dialect, events = STREAMS[name]
    last = max(at for at, one in enumerate(events) if dialect.end.ends(_data(one)))
    for length in range(last + 1):
        with pytest.raises(ValueError, match="before it was complete"):
            whole(dialect, *events[:length])
    assert whole(dialect, *events[: last + 1])


@given(st.lists(SAID, min_size=1, max_size=2))
def test_any_chat_completion_there_and_back(messages):
    """Calls, reasoning and refusals, in one choice or two."""
    body = {
        "object": "chat.completion", "id": "1", "usage": {"prompt_tokens": 1},
        "choices": [{"index": index, "message": one, "finish_reason": "stop"}
                    for index, one in enumerate(messages)],
    }  # fmt: skip
    assert whole(CHAT, streamed(CHAT, body)) == body


@given(st.lists(BLOCKS, max_size=4))
def test_any_message_there_and_back(blocks):
    """Its blocks are those that they were, and its usage too."""
    body = {
        "type": "message", "id": "1", "role": "assistant", "content": blocks,
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 2, "output_tokens": 3},
    }  # fmt: skip
    assert whole(MESSAGES, streamed(MESSAGES, body)) == body


@given(st.lists(ITEMS, max_size=4))
def test_any_response_there_and_back(items):
    """Out of its items alone, where its last event leaves them out."""
    body = response("completed", *items)
    made = streamed(RESPONSES, body)
    assert whole(RESPONSES, made) == body
    shorter = made.replace(json.dumps(items, separators=(",", ":")).encode(), b"null")
    assert whole(RESPONSES, shorter)["output"] == items


@given(st.lists(st.sampled_from(sorted(STREAMS)), min_size=1), st.binary(max_size=40))
def test_a_sign_is_a_whole_event_whatever_went_down(names, rest):
    """Cut anywhere, or no stream at all."""
    for name in names:
        dialect, events = STREAMS[name]
        sign = dialect.sign(b"".join(events)[: len(rest) * 9] + rest)
        assert sign.endswith(b"\n\n")
        assert sign.count(b"\n\n") == 1
        assert isinstance(_data(sign), dict)


def _data(event):
    data = event.partition(b"data: ")[2]
    return {} if data.startswith(b"[DONE]") else json.loads(data)
