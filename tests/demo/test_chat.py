"""The recorded bodies in OpenAI's shape."""

import json
from itertools import pairwise

from cacheproxy.demo.chat import to_chat
from cacheproxy.demo.conversation import load


def test_the_billing_header_stays_at_the_head_of_the_system_text():
    body = load().body(1)
    system = to_chat(body)["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith(body["system"][0]["text"] + "\n")
    assert all(block["text"] in system["content"] for block in body["system"])


def test_tools_become_functions():
    body = load().body(1)
    tools = to_chat(body)["tools"]
    assert [tool["function"]["name"] for tool in tools] == [tool["name"] for tool in body["tools"]]
    assert tools[0]["function"]["parameters"] == body["tools"][0]["input_schema"]


def test_calls_and_results_keep_their_ids():
    messages = to_chat(load().body(2))["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    (call,) = messages[2]["tool_calls"]
    assert call["function"]["name"] == "Bash"
    assert json.loads(call["function"]["arguments"])["command"] == "ls"
    assert messages[3]["tool_call_id"] == call["id"]
    assert messages[3]["content"] == "README.md\nmain.py"


def test_but_for_the_header_each_turn_extends_the_one_before():
    conversation = load()
    turns = [to_chat(conversation.body(n + 1)) for n in range(len(conversation.turns))]
    for earlier, later in pairwise(turns):
        assert earlier["tools"] == later["tools"]
        history = earlier["messages"][1:]
        assert later["messages"][1 : 1 + len(history)] == history
