"""The list of models."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.reading import TranslationError
from cacheproxy.translate.translation import chat_of, models


def test_models():
    """With dates, and how much fits where the server says it; valid by the SDK's types."""
    anthropic = pytest.importorskip("anthropic")
    listed = [
        {"id": "a", "created": 1700000000, "meta": {"n_ctx": 4096}},
        {"id": "b", "created": 10**18, "max_model_len": 8192},
        {"id": "c"},
        {"object": "model"},
    ]
    said = json.loads(models(json.dumps({"object": "list", "data": listed}).encode()))
    dates = "2023-11-14T22:13:20Z", *["1970-01-01T00:00:00Z"] * 2
    rooms = {"max_input_tokens": 4096}, {"max_input_tokens": 8192}, {}
    same = {"type": "model", "lifecycle": "active"}
    assert said["data"] == [
        same | {"id": name, "display_name": name, "created_at": date} | room
        for name, date, room in zip("abc", dates, rooms, strict=True)
    ]
    assert (said["has_more"], said["first_id"], said["last_id"]) == (False, "a", "c")
    for one in said["data"]:
        anthropic.types.ModelInfo.model_validate_json(json.dumps(one), strict=True)


def test_no_models():
    """An empty list is one; anything else is not."""
    assert json.loads(models(b'{"data": []}'))["first_id"] is None
    for body in (b"", b"[]", b'{"data": 7}'):
        with pytest.raises(TranslationError):
            models(body)


PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
    "completion": "/v1/completions",
}


def made(api, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return chat_of(Request("POST", PATHS[api], (), data))


def responses(*items, **fields):
    return made("responses", {"model": "m", "input": list(items), **fields})["messages"]


USER = {"role": "user", "content": "Hi."}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "A boat."}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
CALLED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


# Chat Completions and Ollama.


@pytest.mark.parametrize("api", ["chat", "ollama"])
def test_a_chat_goes_as_it_is_without_what_no_template_sees(api):
    """What binds the answer alone would be refused, or change nothing; so would a null."""
    body = {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, USER],
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": "auto",
        "chat_template_kwargs": {"preserve_thinking": True},
        "reasoning_effort": "high",
    }
    besides = {"stream": True, "max_tokens": 7, "response_format": {"type": "text"}, "user": "me"}
    assert made(api, body | besides) == body
    assert made(api, {"messages": [USER], "tools": None, "model": "m"}) == {
        "messages": [USER],
        "model": "m",
    }


# Anthropic's Messages.


def test_messages_become_those_of_a_chat():
    """As the translation for chat servers has them, but for what no template sees."""
    called = {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}}
    body = {
        "model": "m",
        "max_tokens": 7,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [USER, {"role": "assistant", "content": [called]}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
    }
    assert made("messages", body) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            USER,
            {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
    }


# OpenAI's Responses.


def test_a_text_is_what_the_user_says():
    """The instructions are the system text."""
    found = made("responses", {"model": "m", "instructions": "Be brief.", "input": "Hi."})
    assert found == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, USER],
    }


def test_items_become_messages():
    """With or without their type; a developer speaks as the system."""
    parts = [{"type": "input_text", "text": "H"}, {"type": "input_text", "text": "i."}]
    assert responses(
        {"type": "message", "role": "developer", "content": "Be brief."},
        {"role": "user", "content": parts},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
        },
    ) == [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "Hello."},
    ]


def test_calls_stand_in_the_message_before_them_and_results_in_their_own():
    """Several calls at once are one message."""
    more = CALL | {"call_id": "c2"}
    assert responses(USER, CALL, more, OUTPUT, OUTPUT | {"call_id": "c2"}) == [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALLED, CALLED | {"id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "A boat."},
        {"role": "tool", "tool_call_id": "c2", "content": "A boat."},
    ]
    parts = [{"type": "input_text", "text": "A "}, {"type": "input_text", "text": "boat."}]
    assert responses(CALL, OUTPUT | {"output": parts})[-1]["content"] == "A boat."
    said = {"type": "message", "role": "assistant", "content": "I look."}
    assert responses(said, CALL) == [
        {"role": "assistant", "content": "I look.", "tool_calls": [CALLED]}
    ]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (THOUGHT, "Hm."),
        ({**THOUGHT, "content": [{"type": "reasoning_text", "text": "Well."}]}, "Well."),
        ({**THOUGHT, "content": None}, "Hm."),
        ({"type": "reasoning", "summary": [], "encrypted_content": "x"}, ""),
    ],
)
def test_reasoning_belongs_to_what_follows(item, text):
    """An answer, or a call; what is encrypted nobody can read."""
    said = {"type": "message", "role": "assistant", "content": "Hello."}
    thought = {"role": "assistant", "reasoning_content": text}
    assert responses(USER, item, said) == [USER, {**thought, "content": "Hello."}]
    called = {**thought, "content": "", "tool_calls": [CALLED]}
    assert responses(USER, item, CALL) == [USER, called]


def test_reasoning_does_not_go_to_the_next_answer():
    """Nor does an answer go to reasoning that had its own."""
    said = {"type": "message", "role": "assistant", "content": "Hello."}
    found = responses(THOUGHT, CALL, OUTPUT, said, said)
    assert [message["content"] for message in found] == ["", "A boat.", "Hello.", "Hello."]
    assert [("reasoning_content" in message) for message in found] == [True, False, False, False]


def test_tools_are_wrapped_and_those_of_the_server_left_out():
    """A template sees functions alone."""
    tools = [{"type": "function", "strict": True, **FUNCTION}, {"type": "web_search"}]
    found = made("responses", {"input": "Hi.", "tools": tools})
    assert found["tools"] == [{"type": "function", "function": FUNCTION}]


def test_the_request_stays_as_it_was():
    """Others look at the same value."""
    body = {"input": [USER, THOUGHT, CALL, OUTPUT], "tools": [{"type": "function", **FUNCTION}]}
    request = Request("POST", PATHS["responses"], (), json.dumps(body).encode())
    for _ in range(2):
        assert len(chat_of(request)["messages"]) == 3
    assert request.json == body


# What is no conversation.


def test_a_prompt_that_is_no_conversation_is_none():
    """A completion has no template."""
    assert made("completion", {"prompt": "Once"}) is None
    assert made("completion", {"messages": [USER]}) is None


@pytest.mark.parametrize("api", ["messages", "chat", "responses", "ollama"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"null", b"{}", b"\xff", b"[" * 50_000])
def test_a_body_that_is_none_is_no_conversation(api, body):
    """Nobody fails for it."""
    found = made(api, body)
    assert found is None or (api, found) == ("responses", {"messages": []})


@pytest.mark.parametrize(
    "item",
    [
        7,
        None,
        "text",
        [],
        {},
        {"type": None},
        {"type": "item_reference", "id": "i"},
        {"type": "message"},
        {"type": "message", "role": "user"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "u"}]},
        {"role": "user", "content": [7]},
        {"role": "user", "content": 7},
        {"role": "user", "content": [{"text": 7}]},
        {"type": "function_call", "name": "look"},
        {"type": "function_call_output", "call_id": "c1"},
        {"type": "reasoning", "summary": 7},
    ],
)
def test_an_item_that_is_not_understood_is_all_of_it(item):
    """Half a conversation would be rendered as another one."""
    assert made("responses", {"input": [USER, item]}) is None


@pytest.mark.parametrize("tools", [[7], [None], ["look"], [[]]])
def test_tools_that_are_none_are_not_understood(tools):
    """They stand at the head of the prompt."""
    assert made("responses", {"input": "Hi.", "tools": tools}) is None


@pytest.mark.parametrize("messages", [7, "x", {}, None, True])
@pytest.mark.parametrize("api", ["messages", "chat", "ollama"])
def test_messages_that_are_no_list_are_not_understood(api, messages):
    """Nothing is made up."""
    assert made(api, {"messages": messages}) is None


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
    found = made(api, body)
    if found is not None:
        assert isinstance(found["messages"], list)
        json.dumps(found)
