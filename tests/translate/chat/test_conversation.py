"""Chat messages as messages of Anthropic's API, and how one turn extends the one before."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import find_captures, load_capture
from cacheproxy.translate.common.translation import TranslationError

from .conversations import HEAD, MESSAGES, PDF, PNG, USER, opened, said, spelt, turned, up

HI = {"role": "user", "content": "hi"}
CLIENTS = ("aider", "cline", "openclaw", "opencode", "pi", "qwen")


def text(words):
    return {"type": "text", "text": words}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def call(arguments, name="look", **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def system(*heads):
    return up({"messages": [*heads, HI]}).get("system")


def test_system_messages_at_the_head_are_one_text():
    """One string, joined by a newline, whatever they were made of."""
    one = {"role": "system", "content": "a"}
    two = {"role": "developer", "content": [text("b"), text("c")]}
    assert system(one, two) == "a\nb\nc"
    assert system(one) == system({"role": "system", "content": [text("a")]}) == "a"
    assert system() is system({"role": "system", "content": ""}) is None


def test_cache_breakpoints_of_the_system_stay():
    """In blocks that say the same as the string: servers join them without a seam."""
    mark = {"type": "ephemeral", "ttl": "1h"}
    one = {"role": "system", "content": [text("a"), text("b") | {"cache_control": mark}]}
    assert system(one) == [text("a"), text("\nb") | {"cache_control": mark}]
    assert "".join(block["text"] for block in system(one)) == "a\nb"


def test_late_system_messages_are_the_user_s():
    """Not every server takes the role there, and the head must not change."""
    late = {"role": "system", "content": "now"}
    reminder = user(text("<system-reminder>\nnow\n</system-reminder>"))
    assert said(HI, late, HI) == [user(text("hi")), reminder, user(text("hi"))]
    assert said(HI, {"role": "developer", "content": ""}) == [user(text("hi"))]


def test_a_system_message_alone_is_the_user_s():
    """Anthropic's API wants a message."""
    body = up({"messages": [{"role": "system", "content": "Write."}]})
    assert body["messages"] == [user(text("Write."))]
    assert "system" not in body


def test_parts_of_a_user():
    """Texts, images and documents, in their order; an empty text is none.

    A client that changes from a string to a part changes nothing.
    """
    assert said({"role": "user", "content": [text("hi")]}) == said(HI) == [user(text("hi"))]
    data = "data:text/plain;charset=utf-8;base64,w6k="
    parts = [
        text("see"),
        text(""),
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": "https://x/y"},
        {"type": "file", "file": {"file_data": PDF, "filename": "t.pdf"}},
        {"type": "file", "file": {"file_data": "BBBB"}},
        {"type": "file", "file": {"file_data": data}},
        text("end") | {"cache_control": {"type": "ephemeral", "more": 1}},
    ]
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}
    plain = {"type": "text", "media_type": "text/plain", "data": "é"}
    png = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert said({"role": "user", "content": parts}) == [
        user(
            text("see"),
            {"type": "image", "source": png},
            {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
            {"type": "document", "source": pdf, "title": "t.pdf"},
            {"type": "document", "source": pdf},
            {"type": "document", "source": plain},
            text("end") | {"cache_control": {"type": "ephemeral"}},
        )
    ]


@pytest.mark.parametrize(
    ("role", "part", "place"),
    [
        ("user", {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "/type"),
        ("user", {"type": "file", "file": {"file_id": "f"}}, "/file/file_id"),
        ("user", {"type": "file", "file": {}}, "/file/file_data"),
        ("user", {"type": "file", "file": {"file_data": "data:a/b;base64,"}}, "/file/file_data"),
        (
            "user",
            {"type": "file", "file": {"file_data": "data:text/x;base64,!"}},
            "/file/file_data",
        ),
        ("user", {"type": "image_url", "image_url": {"url": "file:///secret"}}, "/image_url/url"),
        ("user", {"type": "image_url", "image_url": {"url": "data:secret"}}, "/image_url/url"),
        ("user", {"type": "image_url"}, "/image_url"),
        ("user", {"type": "text"}, "/text"),
        ("user", {"text": "secret"}, "/type"),
        ("user", "secret", ""),
        ("system", {"type": "image_url", "image_url": {"url": PNG}}, "/type"),
        ("assistant", {"type": "input_audio"}, "/type"),
        ("tool", {"type": "video"}, "/type"),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(role, part, place):
    """The place is named, the content is not."""
    message = {"role": role, "content": [part], "tool_call_id": "a"}
    with pytest.raises(TranslationError) as caught:
        said(message)
    assert caught.value.place == "/messages/0/content/0" + place
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (7, ""),
        ({"content": "x"}, "/role"),
        ({"role": "narrator", "content": "x"}, "/role"),
        ({"role": ["user"], "content": "x"}, "/role"),
        ({"role": "user"}, "/content"),
        ({"role": "tool", "content": "x"}, "/tool_call_id"),
        ({"role": "function", "name": "f", "content": "x"}, ""),
        ({"role": "assistant", "tool_calls": {}}, "/tool_calls"),
        ({"role": "assistant", "tool_calls": [7]}, "/tool_calls/0"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "/tool_calls/0/function"),
        ({"role": "assistant", "tool_calls": [call("{}", id=7)]}, "/tool_calls/0/id"),
        ({"role": "assistant", "tool_calls": [call([])]}, "/tool_calls/0/function/arguments"),
        ({"role": "assistant", "tool_calls": [call("", None)]}, "/tool_calls/0/function/name"),
        ({"role": "assistant", "tool_calls": [{"type": "custom"}]}, "/tool_calls/0/type"),
        ({"role": "assistant", "function_call": "f"}, "/function_call"),
    ],
)
def test_a_message_without_sense_is_refused_by_its_place(message, place):
    """Where there is one to name."""
    with pytest.raises(TranslationError) as caught:
        said(HI, message)
    assert caught.value.place == "/messages/1" + place
    for body in ({}, {"messages": None}, {"messages": {}}):
        with pytest.raises(TranslationError, match=r"^/messages: "):
            up(body)


def test_an_answer_in_history():
    """Thinking first, then text, then calls, the arguments in the model's own text."""
    arguments = '{ "b":1.0 ,"a":"\\u00e9\\ud83d",\n"c":[ ], "a": 1e999 }'
    answer = {
        "role": "assistant",
        "reasoning_content": "hm",
        "content": "I look.",
        "tool_calls": [call(arguments, id="t1"), call('{"x":2}', id="functions.look:1")],
    }
    body = turned({"messages": [HI, answer]}).body.decode()
    assert body.endswith(
        '{"role":"assistant","content":['
        '{"type":"thinking","thinking":"hm","signature":""},'
        '{"type":"text","text":"I look."},'
        '{"type":"tool_use","id":"t1","name":"look","input":' + arguments + "},"
        '{"type":"tool_use","id":"functions.look:1","name":"look","input":{"x":2}}]}]}'
    )


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("", {}),
        ("  ", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": "cut', {"INVALID_JSON": '{"a": "cut'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ("7", {"INVALID_JSON": "7"}),
        ('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}),
    ],
)
def test_arguments_that_are_no_object(arguments, given):
    """The API takes objects alone: what was written stands in one, none at all is an empty one."""
    answer = {"role": "assistant", "content": None, "tool_calls": [call(arguments, id="t")]}
    [message] = said(answer)
    assert message["content"] == [{"type": "tool_use", "id": "t", "name": "look", "input": given}]


def test_other_forms_of_an_answer():
    """Another name for thinking; a refusal is text; calls without an id get one by their place."""
    other = {"role": "assistant", "reasoning": "hm", "content": None, "refusal": "No."}
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert said(other)[0]["content"] == [thinking, text("No.")]
    assert said(other | {"reasoning_content": "hm"}) == said(other)
    parts = [text("a"), {"type": "refusal", "refusal": "b"}]
    assert said({"role": "assistant", "content": parts})[0]["content"] == [text("a"), text("b")]
    unnamed = {"role": "assistant", "tool_calls": [call("{}"), call("{}")]}
    ids = [block["id"] for block in said(HI, unnamed)[1]["content"]]
    assert ids == ["call_1_0", "call_1_1"]


def test_what_says_nothing_is_left_out():
    """The API refuses messages without content."""
    nothing = [
        {"role": "user", "content": ""},
        {"role": "user", "content": []},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "assistant", "audio": {"id": "a"}},
    ]
    for message in nothing:
        assert said(HI, message) == [user(text("hi"))]


def test_results_in_a_row_are_one_message():
    """What the user says then is another: shared, llama.cpp would put it before the results."""
    results = [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": [text("two"), text("three")]},
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": [text("see"), {"type": "image_url", "image_url": {"url": PNG}}],
        },
        {"role": "tool", "tool_call_id": "d", "content": None},
    ]
    image = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert said(*results, HI, results[0]) == [
        user(
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {"type": "tool_result", "tool_use_id": "b", "content": "two\nthree"},
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "content": [text("see"), {"type": "image", "source": image}],
            },
            {"type": "tool_result", "tool_use_id": "d", "content": ""},
        ),
        user(text("hi")),
        user({"type": "tool_result", "tool_use_id": "a", "content": "one"}),
    ]


def test_function_calls_of_old():
    """They have no ids: the message's place makes one, and the result takes the last."""
    asked = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}
    result = {"role": "function", "name": "f", "content": "one"}
    assert said(HI, asked, result)[1:] == [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "f", "input": {}}],
        },
        user({"type": "tool_result", "tool_use_id": "call_1", "content": "one"}),
    ]


@given(HEAD, USER, MESSAGES, MESSAGES, st.booleans())
def test_a_turn_extends_the_one_before(head, first, before, more, ascii_only):
    """Byte for byte, even where the new messages hold what msgspec cannot read."""
    begun = [*head, first, *before]
    texts = [
        turned(spelt({"messages": one}, ascii_only=ascii_only)).body
        for one in (begun, begun + more)
    ]
    earlier, later = map(opened, texts)
    assert later.startswith(earlier)
    assert json.loads(texts[1])


@given(HEAD, USER, MESSAGES)
def test_both_readers_and_writers_spell_alike(head, first, messages):
    """A lone surrogate elsewhere in the body changes nothing in the rest."""
    text = spelt([*head, first, *messages]).replace("\\ud", "\\u0")  # no surrogates at all
    clean = json.loads(text)
    odd = [*clean, {"role": "user", "content": "cut: \ud83d"}]
    usual, other = (turned({"messages": one}).body for one in (clean, odd))
    tail = '{"role":"user","content":[{"type":"text","text":"cut: \\ud83d'
    assert other.decode().startswith(opened(usual))
    assert opened(other).endswith(tail + '"}')


def test_captured_turns_extend_each_other():
    """As far as the client's own messages do, the translated do, in their exact text."""
    files = [one for name in CLIENTS for one in find_captures(f"{name}*.jsonl", __file__)]
    assert sum(compare_turns(file) for file in files) > 50


def compare_turns(capture):
    """Compare the requests of each session in ``capture``; return how many were compared."""
    last = {}
    compared = 0
    for one in load_capture(capture):
        if not one.path.endswith("/chat/completions"):
            continue
        sent = turned(one.body).body
        tools = tools_text(sent)
        session = (session_of(one).id, bool(one.json.get("tools")))
        if session in last:
            before, sent_before, tools_before = last[session]
            common = shared(before["messages"], one.json["messages"])
            if before.get("tools") == one.json.get("tools"):
                assert tools == tools_before, capture.name
            if any(message["role"] != "system" for message in common):
                known = messages_text(turned({"messages": common}).body)
                for body in (sent_before, sent):
                    assert messages_text(body).startswith(known), capture.name
                compared += 1
        last[session] = one.json, sent, tools
    return compared


def messages_text(body):
    text = opened(body)
    begin = text.rindex('"messages":[{"role":')
    return json.dumps(json.loads(body).get("system")) + text[begin:]


def tools_text(body):
    text = body.decode()
    return (
        text[text.index('"tools":[') : text.rindex('"messages":[')] if '"tools":[' in text else ""
    )


def shared(before, after):
    """The messages that both lists begin with."""
    count = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        count += 1
    return after[:count]
