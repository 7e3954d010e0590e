"""Calls and turns in a history that a server refuses: the least change, the same in each turn."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.adapt.adaptation import Need, Refusal
from cacheproxy.core.adapt.calls import THINKING, Calls
from cacheproxy.core.adapt.pairs import EMPTY, NO_ANSWER, NO_CALL, NO_RESULT
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request
from tests import transcript

CHAT, MESSAGES, RESPONSES, OLLAMA = (
    *("/v1/chat/completions", "/v1/messages"),
    *("/v1/responses", "/api/chat"),
)
CALLS = Calls()
ALL = dict.fromkeys(
    ("arguments", "objects", "contents", "types", "results", "calls", "answers", "words", "turns"),
    True,
)
PARSE = "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] x"
ITEMS = "Unknown (built-in) filter 'items' for type Array"
TURNS = "conversation roles must alternate user/assistant/user/assistant/..."
TRAIL = "Cannot have 2 or more assistant messages at the end of the list."
GONE = "Message has tool role, but there was no previous assistant message with a tool call!"
BOTH = "Assistant message must contain either 'content' or 'tool_calls'!"
ITEM = "Cannot determine type of 'item'"
OPEN = "Cannot continue an assistant message that contains tool calls."


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def user(content="u"):
    return says("user", content)


def model(content="a", **more):
    return says("assistant", content, **more)


def chat(arguments, id_="c"):
    function = {"name": "f", "arguments": arguments}
    return model(None, tool_calls=[{"id": id_, "type": "function", "function": function}])


def use(given, id_="c"):
    return model([{"type": "tool_use", "id": id_, "name": "f", "input": given}])


def item(arguments, id_="c"):
    return {"type": "function_call", "call_id": id_, "name": "f", "arguments": arguments}


def result(content="r", id_="c"):
    return {"role": "tool", "tool_call_id": id_, "content": content}


def block(content="r", id_="c"):
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


def output(given="r", id_="c"):
    return {"type": "function_call_output", "call_id": id_, "output": given}


TYPED = {"type": "message"}


def text(said, kind="text"):
    return {"type": kind, "text": said}


def typed(role, said):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [text(said, kind)]}


CASES = [
    # arguments
    (PARSE, CHAT, [chat('{"p')], [chat('{"INVALID_JSON":"{\\"p"}')]),
    (PARSE, CHAT, [chat("")], [chat("{}")]),
    (PARSE, CHAT, [chat('{"p":NaN}')], [chat('{"INVALID_JSON":"{\\"p\\":NaN}"}')]),
    (PARSE, RESPONSES, [item("ls"), output()], [item('{"INVALID_JSON":"ls"}'), output()]),
    (ITEM, RESPONSES, [item(None), output()], [item("{}"), output()]),
    (ITEMS, CHAT, [chat("[1]")], [chat('{"INVALID_JSON":"[1]"}')]),
    (ITEMS, CHAT, [chat("null")], [chat("{}")]),
    (ITEMS, CHAT, [chat(3)], [chat('{"INVALID_JSON":3}')]),
    (ITEMS, MESSAGES, [use([1])], [use({"INVALID_JSON": [1]})]),
    (ITEMS, MESSAGES, [use('{"p":1}')], [use({"p": 1})]),
    (ITEMS, OLLAMA, [chat('"x"')], [chat({"INVALID_JSON": '"x"'})]),
    # contents
    (BOTH, CHAT, [{"role": "assistant"}], [model("")]),
    (
        BOTH,
        CHAT,
        [{"role": "assistant", "reasoning": "r"}],
        [{"role": "assistant", "reasoning": "r", "content": ""}],
    ),
    ("Expected 'content' to be a string", CHAT, [user({"a": 1})], [user('{"a":1}')]),
    (ITEM, RESPONSES, [model([]) | TYPED], [model("") | TYPED]),
    (ITEM, RESPONSES, [user(), model("b")], [user(), model("b") | TYPED]),
    (ITEM, RESPONSES, [item("{}"), output(None)], [item("{}"), output("")]),
    # results without calls
    (GONE, CHAT, [model(), result()], [model(), user(f"{NO_CALL}\n\nr")]),
    (GONE, CHAT, [result([text("r")])], [user([text(f"{NO_CALL}\n\nr")])]),
    (GONE, MESSAGES, [user([block(), text("u")])], [user([text(NO_CALL), text("r"), text("u")])]),
    (GONE, MESSAGES, [user([block([text("r")])])], [user([text(NO_CALL), text("r")])]),
    (
        *(GONE, RESPONSES, [output()]),
        [
            {
                **typed("user", NO_CALL),
                "content": [text(NO_CALL, "input_text"), text("r", "input_text")],
            }
        ],
    ),
    # calls without results
    (OPEN, CHAT, [chat("{}")], [chat("{}"), result(NO_RESULT)]),
    (TURNS, CHAT, [chat("{}"), user()], [chat("{}"), result(NO_RESULT), user()]),
    (TURNS, MESSAGES, [use({}), user()], [use({}), user([block(NO_RESULT), text("u")])]),
    (OPEN, MESSAGES, [use({})], [use({}), user([block(NO_RESULT)])]),
    (
        *(OPEN, RESPONSES, [item("{}"), item("{}", "d"), output("r", "d"), user()]),
        [item("{}"), item("{}", "d"), output("r", "d"), output(NO_RESULT), user()],
    ),
    # turns
    (TRAIL, CHAT, [user(), model("a"), model("b")], [user(), model("a\n\nb")]),
    (
        TRAIL,
        CHAT,
        [model("a"), model("b"), chat("{}"), result()],
        [model("a\n\nb") | chat("{}") | {"content": "a\n\nb"}, result()],
    ),
    (TRAIL, MESSAGES, [model("a"), model([text("b")])], [model([text("a\n\nb")])]),
    (TURNS, MESSAGES, [user(), model([]), user()], [user(), model(EMPTY), user()]),
    (TURNS, CHAT, [chat("{}"), result(), user()], [chat("{}"), result(), model(NO_ANSWER), user()]),
    (
        *(TURNS, MESSAGES, [use({}), user([block(), text("u")])]),
        [use({}), user([block()]), model(NO_ANSWER), user([text("u")])],
    ),
    (
        *(TURNS, RESPONSES, [item("{}"), output(), user()]),
        [item("{}"), output(), typed("assistant", NO_ANSWER), user()],
    ),
]


def asked(path, messages, **more):
    body = {"input" if path == RESPONSES else "messages": messages, **more}
    return request(json.dumps(body, separators=(",", ":")), path)


def edited(sent, need):
    return apply(sent.document, CALLS.edits(sent, need))


@pytest.mark.parametrize(("words", "path", "came", "expected"), CASES)
def test_the_least_that_heals(words, path, came, expected):
    """It is found by the words, once, and known in each later turn, whose start is the same."""
    sent = asked(path, came)
    need = CALLS.refused(Refusal(500, words), sent, None)
    assert len(need.facts) == 1
    body = edited(sent, need)
    assert body == asked(path, expected).body
    assert CALLS.refused(Refusal(500, words), sent, need) != need
    assert CALLS.needed(request(json.loads(body), path), need.facts) is None, "healed once"
    if came[-1].get("role") != "assistant" and "tool_calls" not in came[-1]:
        later = [*came, model("b"), user("go on")]
        body = edited(asked(path, later), CALLS.needed(asked(path, later), need.facts))
        assert body == asked(path, [*expected, model("b"), user("go on")]).body


def test_thinking_is_off_where_an_answer_is_begun():
    refusal = Refusal(400, "Assistant response prefill is incompatible with enable_thinking.")
    for more in ({}, {"chat_template_kwargs": {"a": 1, "enable_thinking": True}}):
        sent = asked(CHAT, [user(), model("{")], **more)
        need = CALLS.refused(refusal, sent, None)
        assert need == CALLS.needed(sent, {THINKING: True}) == Need({THINKING: True})
        kwargs = more.get("chat_template_kwargs", {}) | {"enable_thinking": False}
        assert json.loads(edited(sent, need)) == sent.json | {"chat_template_kwargs": kwargs}
    assert CALLS.needed(asked(CHAT, [user()]), {THINKING: True}) is None


COMMON = [
    *(None, 3, {}, user(), user(""), user([]), user(None), user([text("")]), says("system", "s")),
    *(model(""), model([]), model("b"), {"role": "assistant"}),
]
OF_CHAT = [
    *(chat("{"), chat("{}"), chat("{}", 3), chat("{}", []), chat("[", "d")),
    *(result(), result("x", "z"), result(None), result([text("r")], "z")),
]
OF_MESSAGES = [
    *(use(3), use({}), use({}, "d"), user([block(), text("u")]), user([block("x", "z")])),
    *(user([block([text("r")], None), 3]), user([block([text("r")], "z"), block()])),
]
OF_RESPONSES = [
    *(item("["), item("{}", "d"), output(), output(None, "z"), output("x", "z")),
    *({"type": "reasoning"}, typed("assistant", "b"), typed("user", "u")),
]
PIECES = {CHAT: OF_CHAT, OLLAMA: OF_CHAT, MESSAGES: OF_MESSAGES, RESPONSES: OF_RESPONSES}


@st.composite
def histories(draw):
    path = draw(st.sampled_from(sorted(PIECES)))
    return asked(path, draw(st.lists(st.sampled_from([*COMMON, *PIECES[path]]), max_size=7)))


@settings(max_examples=6 * settings().max_examples)
@given(histories(), st.sets(st.sampled_from(sorted(ALL))))
def test_any_history_is_healed_once_and_keeps_all_texts(sent, kinds):
    """Nothing raises; healed again it is the same; what was said and returned is still there."""
    need = CALLS.needed(sent, dict.fromkeys(kinds, True))
    if need is None:
        return
    body = edited(sent, need)
    assert body != sent.body
    again = request(json.loads(body), sent.path)
    assert CALLS.needed(again, dict.fromkeys(kinds, True)) is None
    for said in ('"u"', '"r"', '"x"', '"b"'):
        assert body.count(said[1:-1].encode()) >= sent.body.count(said.encode())


def test_all_that_is_said():
    transcript.holds("calls.txt", globals())
