"""What agents send in other dialects has the shape llama-server would give it."""

import json

import pytest

from cacheproxy.core.prompt.request import Request
from cacheproxy.replay.shape import chat_shape


def shape(target, body):
    return chat_shape(Request("POST", target, (), json.dumps(body).encode()))


def test_a_chat_body_is_taken_as_it_is():
    body = {"messages": [], "x": 1}
    assert shape("/v1/chat/completions", body) == body


def test_a_messages_body():
    body = {
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: v=1; cch=a5145;"},
            {"type": "text", "text": "You"},
        ],
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any"},
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "so"},
                    {"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
                    },
                    {"type": "text", "text": "more"},
                ],
            },
        ],
    }
    call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": '{"a":1}'}}
    made = shape("/v1/messages", body)
    assert made["messages"] == [
        {"role": "system", "content": "x-anthropic-billing-header: v=1; cch=fffff;You"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "so"}],
            "tool_calls": [call],
            "reasoning_content": "hm",
        },
        {"role": "user", "content": [{"type": "text", "text": "more"}]},
        {"role": "tool", "tool_call_id": "1", "content": "xy"},
    ]
    assert made["tools"][0]["function"] == {
        "name": "t",
        "description": "",
        "parameters": {"type": "object"},
    }
    assert made["tool_choice"] == "required"


def test_a_responses_body():
    body = {
        "instructions": "You",
        "tools": [{"type": "function", "name": "t"}, {"type": "web_search"}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "summary": [], "content": [{"text": "hm"}]},
            {"type": "function_call", "call_id": "1", "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "x"},
            {"role": "assistant", "type": "message", "content": "so"},
        ],
    }
    made = shape("/v1/responses", body)
    call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    assert made["messages"] == [
        {"role": "system", "content": "You"},
        {"role": "user", "content": [{"text": "hi", "type": "text"}]},
        {
            "role": "assistant",
            "content": [],
            "reasoning_content": "hm",
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "assistant", "content": [{"text": "so", "type": "text"}]},
    ]
    assert made["tools"] == [{"type": "function", "function": {"strict": True, "name": "t"}}]


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1/messages", {"messages": [{"content": [1]}]}),
        ("/v1/responses", {"input": [{"type": "item_reference"}]}),
        ("/completion", {"prompt": "x"}),
        ("/api/chat", {"messages": []}),
    ],
)
def test_what_cannot_be_told_has_no_shape(target, body):
    assert shape(target, body) is None
