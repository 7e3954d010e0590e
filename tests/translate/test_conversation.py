"""Messages as chat messages, and how one turn extends the one before."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.dialects import messages as spoken
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.testing import find_captures, load_capture
from cacheproxy.translate.reading import TranslationError
from tests.translate.values import TEXT

from .conversations import MESSAGES, chat, elements, spelt, turned

USER = {"role": "user", "content": "hi"}
PNG = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def said(*messages, **more):
    return chat({"messages": list(messages), **more})["messages"]


def text(words):
    return {"type": "text", "text": words}


def test_system_blocks_are_one_message():
    """Strict templates take one, at the beginning; its texts are joined by a newline."""
    system = [text("a") | {"cache_control": {"type": "ephemeral"}}, text("b")]
    assert said(USER, system=system)[0] == {"role": "system", "content": "a\nb"}
    assert said(USER, system="a") == said(USER, system=[text("a")])
    assert said(USER, system="") == said(USER, system=[]) == [USER]


def test_system_messages_stay_in_their_place():
    """Late ones too; one that only carries options says nothing."""
    late = {"role": "system", "content": [text("now")]}
    empty = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    assert said(USER, late, empty, USER) == [USER, {"role": "system", "content": "now"}, USER]


def test_a_text_is_the_same_as_string_and_as_block():
    """A client that changes from one to the other changes nothing."""
    blocks = {"role": "user", "content": [text("hi") | {"cache_control": {"type": "ephemeral"}}]}
    assert turned({"messages": [blocks]}).body == turned({"messages": [USER]}).body
    assert said({"role": "user", "content": [text("a"), text("b")]})[0]["content"] == "a\nb"


def test_images_and_documents():
    """In their order among the texts."""
    content = [
        text("see"),
        {"type": "image", "source": PNG},
        {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
        {"type": "document", "title": "T", "source": {"type": "text", "data": "words"}},
        {"type": "document", "title": "t.pdf", "context": "C", "source": PDF},
    ]
    file = {"filename": "t.pdf", "file_data": "data:application/pdf;base64,BBBB"}
    assert said({"role": "user", "content": content})[0]["content"] == [
        text("see"),
        SHOWN,
        {"type": "image_url", "image_url": {"url": "https://x/y"}},
        text("T"),
        text("words"),
        text("C"),
        {"type": "file", "file": file},
    ]


def test_results_come_first_each_in_a_message_of_its_own():
    """In their order, before what the user says beside; images are shown with that."""
    content = [
        text("and now?"),
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "is_error": True,
            "content": [text("two"), {"type": "image", "source": PNG}, text("three")],
        },
        {"type": "tool_result", "tool_use_id": "c"},
        {
            "type": "tool_result",
            "tool_use_id": "d",
            "content": [{"type": "tool_reference", "tool_name": "WebFetch"}],
        },
    ]
    assert said({"role": "user", "content": content}) == [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {
            "role": "tool",
            "tool_call_id": "b",
            "content": "Error: two\n[image: see below]\nthree",
        },
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "tool", "tool_call_id": "d", "content": "WebFetch"},
        {"role": "user", "content": [SHOWN, text("and now?")]},
    ]


def test_an_answer():
    """Thinking, text and calls, the arguments in the client's own spelling."""
    given_input = '{ "b":1.0 ,"a":"\\u00e9\\ud83d",\n"c":[ ] }'
    body = (
        '{"messages":[{"role":"assistant","content":['
        '{"type":"thinking","thinking":"hm","signature":"s"},'
        '{"type":"redacted_thinking","data":"x"},'
        '{"type":"text","text":"I "},'
        '{"type":"tool_use","id":"t1","name":"look","input":' + given_input + "},"
        '{"type":"text","text":"look."},'
        '{"type":"server_tool_use","id":"s","name":"web_search","input":{}},'
        '{"type":"web_search_tool_result","tool_use_id":"s","content":[]}]}]}'
    )
    assert chat(body)["messages"] == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "id": "t1",
                    "type": "function",
                    "function": {"name": "look", "arguments": given_input},
                }
            ],
        }
    ]


def test_an_answer_that_says_nothing_is_left_out():
    """Its thinking was for Anthropic's servers alone, or there was none."""
    nothing = [[], [{"type": "redacted_thinking", "data": "x"}], [text("")]]
    for content in nothing:
        assert said(USER, {"role": "assistant", "content": content}) == [USER]


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize("kind", ["tool_use", "tool_result", "image", "thinking"])
def test_blocks_have_their_roles(role, kind):
    """A block in a message of the wrong role is refused, by its place."""
    right = {("user", "image"), ("user", "tool_result"), ("assistant", "tool_use")}
    right.add(("assistant", "thinking"))
    one = {
        "tool_use": {"id": "t", "name": "n", "input": {}},
        "tool_result": {"tool_use_id": "t"},
        "image": {"source": PNG},
        "thinking": {"thinking": "x"},
    }[kind]
    message = {"role": role, "content": [{"type": kind, **one}]}
    if (role, kind) in right:
        assert said(message)
    else:
        with pytest.raises(TranslationError, match=r"^/messages/0/content/0"):
            said(message)


def test_the_model_s_own_spelling_comes_back():
    """The client spells the same input anew; another input is the client's."""
    spellings = Spellings()
    spellings.keep("t1", '{"path": "/a",  "n": 1.0}')

    def arguments(given_input):
        call = {"type": "tool_use", "id": "t1", "name": "look", "input": given_input}
        body = {"messages": [{"role": "assistant", "content": [call]}]}
        [message] = chat(body, spellings)["messages"]
        return message["tool_calls"][0]["function"]["arguments"]

    assert arguments({"n": 1, "path": "/a"}) == '{"path": "/a",  "n": 1.0}'
    assert arguments({"n": 2, "path": "/a"}) == '{"n": 2, "path": "/a"}'


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


def test_captured_turns_extend_each_other():
    """As far as the client's own messages do, the chat messages do, in their exact text."""
    files = find_captures("*.jsonl", __file__)
    assert sum(compare_turns(file) for file in files) > 50


def compare_turns(capture):
    """Compare the chat requests of each session in ``capture``; return how many were compared."""
    last = {}
    compared = 0
    for one in load_capture(capture):
        if one.dialect is not spoken.MESSAGES or not endpoint_of(one.path).purpose.evaluates:
            continue
        session = (session_of(one).id, bool(one.json.get("tools")))
        sent = turned(one.body).body.decode()
        messages = elements(sent, "messages")
        tools = elements(sent, "tools") if '"tools":[' in sent else []
        if session in last:
            before, said_before, tools_before = last[session]
            if before.get("system") == one.json.get("system"):
                shared = one.json["messages"][: shared_messages(before, one.json)]
                least = bool(one.json.get("system")) + sum(map(counts, shared))
                assert messages[:least] == said_before[:least], capture.name
                compared += bool(shared)
            if before.get("tools") == one.json.get("tools"):
                assert tools == tools_before, capture.name
        last[session] = one.json, messages, tools
    return compared


def shared_messages(before, after):
    """How many messages the bodies share, whatever their cache breakpoints and forms of text."""
    pairs = zip(before["messages"], after["messages"], strict=False)
    shared = 0
    for one, other in pairs:
        if plain(one) != plain(other):
            break
        shared += 1
    return shared


def plain(value):
    if isinstance(value, dict):
        if isinstance(value.get("content"), str):
            value = value | {"content": [text(value["content"])]}
        return {key: plain(inner) for key, inner in value.items() if key != "cache_control"}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def counts(message):
    """How many chat messages one message makes, at the least."""
    if not isinstance(message["content"], list):
        return 1
    results = sum(block["type"] == "tool_result" for block in message["content"])
    others = any(block["type"] != "tool_result" for block in message["content"])
    return results + others
