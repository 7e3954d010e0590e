"""Tools and tool calls known from the turn before keep their spelling, and tools their order."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.compare import alike
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import CALLS_AS_BEFORE, TOOLS_AS_BEFORE
from cacheproxy.core.rules.fold import normalize

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
PATHS = (CHAT, MESSAGES, RESPONSES)
each_path = pytest.mark.parametrize("path", PATHS)


def sent(rule, now, before):
    """The request as the rule leaves it; a second pass leaves it as it is."""
    done = normalize(now, [rule], before)
    assert not any(report.error for report in done.reports)
    assert normalize(done.request, [rule], before).request is done.request
    return done.request


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


def spelled(value, draw):
    """``value`` with its members in some order, and some spaces and escapes."""

    def shuffled(value):
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in draw(st.permutations(list(value)))}
        return [shuffled(one) for one in value] if isinstance(value, list) else value

    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :\t")]))
    return json.dumps(shuffled(value), ensure_ascii=True, separators=separators)


# Tools.

A, B, C = '{"name": "a", "input_schema": {"x": 1, "y": [2]}}', '{"name":"b"}', '{ "name":"c" }'
A_AGAIN = '{"input_schema":{"y":[2],"x":1.0},"name":"\\u0061"}'
SEARCH, WRAPPED = '{"type":"web_search"}', '{"type":"function","function":{"name":"f"}}'


def listing(*tools, path=MESSAGES, before=True, memo=None):
    """A request with ``tools``, ``before`` its messages or behind them."""
    texts = ('"model":"m"', '"tools": [ ' + " , ".join(tools) + " ]", '"messages":[]')
    body = "{" + ", ".join(texts if before else texts[::-1]) + "}"
    return Request("POST", path, body=body.encode(), memo=memo)


def tools_of(request):
    return [item.spelled.decode() for item in request.document.array("tools").items]


def a_with(schema):
    return f'{{"name":"a","input_schema":{schema}}}'


@each_path
@pytest.mark.parametrize("before", [True, False], ids=["before the messages", "behind them"])
@pytest.mark.parametrize(
    ("earlier", "now", "expected"),
    [
        # known ones come first, as they were; new ones follow in the client's order
        ((A, C), (A, B, C), (A, C, B)),
        ((A, B, C), (C, B, A), (A, B, C)),
        ((A, B, C), (C, A), (A, C)),
        ((A, B), (B, A_AGAIN), (A, B)),
        ((A, B), (C, A), (A, C)),
        ((A,), (), ()),
        ((), (B, A), (B, A)),
        # a function is known by its name, and a built-in tool by its type
        ((SEARCH, WRAPPED), (A, WRAPPED, SEARCH), (SEARCH, WRAPPED, A)),
        # one that says something else is the client's
        *(((A, B), (one, B), (one, B)) for one in map(a_with, ('{"x":1,"y":[2,3]}',
          '{"x":true,"y":[2]}', '{"x":"1","y":[2]}'))),
        # those that cannot be told apart stay where they are
        ((A, B), (B, B, A), (B, B, A)),
        ((A, A, B), (B, A), (B, A)),
        ((A, B), (B, '{"no":"name"}', A), (B, '{"no":"name"}', A)),
        ((A, B), ("1",), ("1",)),
    ],
)  # fmt: skip
def test_known_tools_come_first_as_they_were(earlier, now, expected, before, path):
    asked = listing(*now, path=path, before=before)
    found = sent(TOOLS_AS_BEFORE, asked, listing(*earlier, path=path, before=before))
    assert tools_of(found) == list(expected)
    assert found is asked or now != expected


def test_equal_tools_cost_no_reading_of_the_turn_before():
    """Though the messages have grown, on either side of them."""
    for before in (True, False):
        now, previous = listing(A, B, before=before), listing(A, B, before=before)
        grown = now.with_text(now.body.decode().replace('"messages":[]', '"messages":[{}, {}]'))
        assert sent(TOOLS_AS_BEFORE, grown, previous) is grown
        assert not previous.is_read


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"tools":{}}', b'{"tools":[1,"a",null]}'])
def test_odd_bodies_go_on_as_they_came(body):
    odd, asked = Request("POST", MESSAGES, body=body), listing(B, A)
    assert sent(TOOLS_AS_BEFORE, odd, listing(A, B)) is odd
    assert sent(TOOLS_AS_BEFORE, asked, odd) is sent(TOOLS_AS_BEFORE, asked, None) is asked


NAMED = st.dictionaries(st.sampled_from("abcdefg"), VALUES, max_size=7)


@given(st.data(), NAMED, NAMED)
def test_neither_the_set_of_tools_nor_what_they_say_changes(data, earlier, later):
    """Whatever came before; what both have and say alike keeps its order and its bytes."""
    kept = {name: earlier[name] for name in earlier if data.draw(st.booleans())}
    later = {**later, **kept}
    memo = data.draw(st.sampled_from([None, Memo()]))

    def made(tools):
        order = data.draw(st.permutations(list(tools)))
        texts = [spelled({"name": name, "schema": tools[name]}, data.draw) for name in order]
        return listing(*texts, memo=memo)

    def spellings(request):
        names = [tool["name"] for tool in request.json["tools"]]
        return dict(zip(names, tools_of(request), strict=True))

    before, now = made(earlier), made(later)
    found = sent(TOOLS_AS_BEFORE, now, before)
    assert len(found.json["tools"]) == len(now.json["tools"])
    schemas = {tool["name"]: tool["schema"] for tool in found.json["tools"]}
    assert schemas.keys() == later.keys()
    assert all(alike(schemas[name], later[name]) for name in later)
    ours, theirs = spellings(found), spellings(before)
    known = [name for name in theirs if name in later]
    assert list(ours)[: len(known)] == known
    assert all(ours[name] == theirs[name] for name in kept)
    assert found.body.startswith(now.body.partition(b'"tools"')[0])
    assert found.body.endswith(now.body.rpartition(b"]")[2])


# Calls.

FIRST, AGAIN = '{"b": 1.0, "a": "é"}', '{"a":"\\u00e9","b":1}'


def call(path, text, name="call_1"):
    """A message, as JSON, that calls a tool with the arguments ``text``."""
    if path == MESSAGES:
        block = f'{{"type":"tool_use","id":"{name}","name":"f","input":{text}}}'
        return f'{{"role":"assistant","content":[{{"type":"text","text":"x"}},{block}]}}'
    quoted = json.dumps(text, ensure_ascii=False)
    if path == RESPONSES:
        return f'{{"type":"function_call","call_id":"{name}","name":"f","arguments":{quoted}}}'
    function = f'{{"name":"f","arguments":{quoted}}}'
    one = f'{{"id":"{name}","type":"function","function":{function}}}'
    return f'{{"role":"assistant","content":null,"tool_calls":[{one}]}}'


def asking(path, *messages, head="", memo=None):
    """A request with ``messages``; a pair is a call's arguments and id, a word the user's."""
    made = [
        call(path, *one)
        if isinstance(one, tuple)
        else one if one[:1] in '{"' else json.dumps({"role": "user", "content": one})
        for one in messages
    ]  # fmt: skip
    name = "input" if path == RESPONSES else "messages"
    body = f'{{"model":"m{head}", "{name}":[{", ".join(made)}],"stream":true}}'
    return Request("POST", path, body=body.encode(), memo=memo)


OLD, NEW, OTHER = (FIRST,), (AGAIN,), (AGAIN, "call_2")
MANY = [[(text, f"call_{number}") for number in range(60)] for text in (FIRST, AGAIN)]


@each_path
@pytest.mark.parametrize("head", ["", "1"], ids=["same place", "moved by a byte"])
@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(["go", OLD, "done"], ["go", NEW, "done", "more"],
                     ["go", OLD, "done", "more"], id="as the turn before sent it"),
        pytest.param(["one", "two", OLD, "done"], ["two", NEW, "done"], ["two", OLD, "done"],
                     id="found by its id in a history that was cut"),
        pytest.param([OLD], [OTHER], [OTHER], id="another id is another call"),
        pytest.param([OLD, "done", NEW, "done"], [OLD, "Done", NEW, "done"],
                     [OLD, "Done", NEW, "done"], id="of calls with one id unchanged ones stay"),
        pytest.param(*MANY, MANY[0], id="of many each keeps its own"),
        *(pytest.param([OLD], [(text,), "more"], [(text,), "more"], id=f"changed: {text}")
          for text in ('{"b":1,"a":"e"}', '{"a":"é","b":true}', '{"a":"é"}',
                       '{"a":"é","b":1,"c":null}', "{}")),
    ],
)  # fmt: skip
def test_a_call_keeps_its_first_spelling_unless_the_client_changed_it(
    path, head, before, now, expected
):
    """Nothing else of the body changes, wherever the call stands in it."""
    asked = asking(path, *now, head=head)
    found = sent(CALLS_AS_BEFORE, asked, asking(path, *before))
    assert found.body == asking(path, *expected, head=head).body
    assert found is asked or now != expected


class Searched(bytes):
    """A body that counts how often it is searched."""

    searches = 0

    def find(self, *arguments):
        self.searches += 1
        return super().find(*arguments)


@each_path
def test_many_calls_cost_no_search_of_the_turn_before_each(path):
    """A client may give its calls new ids; the turn before may be long."""
    searches = []
    for count in (100, 300):
        before, now = (
            asking(path, *((FIRST, f"{kind}_{number}") for number in range(count)))
            for kind in ("old", "new")
        )
        body = Searched(before.body)
        assert sent(CALLS_AS_BEFORE, now, replace(before, body=body)) is now
        searches.append(body.searches)
    assert searches[0] == searches[1]


@each_path
def test_what_was_only_appended_costs_no_reading_of_the_turn_before(path):
    """Also where the last message of the turn before reads differently now."""
    before = asking(path, "go", OLD, "done")
    now = asking(path, "go", OLD, "Done", OTHER)
    assert sent(CALLS_AS_BEFORE, now, before) is now
    assert not before.is_read


@pytest.mark.parametrize("text", ["not JSON", '"text"', "[1]", '{"a":NaN}', "[" * 5000, ""])
def test_odd_arguments_stay(text):
    now, before = (asking(CHAT, (one,)) for one in (text, FIRST))
    assert sent(CALLS_AS_BEFORE, now, before) is now
    assert sent(CALLS_AS_BEFORE, before, now) is before


@pytest.mark.parametrize(
    "message",
    [
        '{"role":"user","content":[{"type":"tool_use","id":"call_1","input":{"b":1}}]}',
        '{"role":"tool","tool_call_id":"call_1","content":"{\\"b\\":1}"}',
        '{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"{}"}]}',
        '{"role":"assistant","tool_calls":[1,{"id":"call_1","function":"f"}],"content":["x"]}',
        '{"role":"assistant","tool_calls":{"id":"call_1"},"content":{"id":"call_1"}}',
        '"call_1"',
    ],
)
def test_what_is_no_call_of_the_model_stays(message):
    """What a user typed or a tool returned may look like one."""
    other = message.replace('"b":1', '"b":1.0').replace("}", " }")
    now, before = asking(MESSAGES, other), asking(MESSAGES, message)
    assert sent(CALLS_AS_BEFORE, now, before) is now
    assert sent(CALLS_AS_BEFORE, now, Request("POST", MESSAGES, body=b"no json")) is now


@given(st.data(), st.sampled_from(PATHS), st.lists(st.dictionaries(st.text(), VALUES), max_size=4))
def test_arguments_never_mean_anything_else(data, path, calls):
    """However both turns spell them; those alike to before have its bytes."""
    memo = data.draw(st.sampled_from([None, Memo()]))
    later = [{"new": 0} if data.draw(st.booleans()) else given for given in calls]
    before, now = (
        asking(path, *((spelled(value, data.draw), f"call_{number}")
                       for number, value in enumerate(values)), memo=memo)
        for values in (calls, later)
    )  # fmt: skip
    found = sent(CALLS_AS_BEFORE, now, before)
    name = "input" if path == RESPONSES else "messages"
    ours, theirs = (one.document.array(name) for one in (found, before))
    assert len(found.json[name]) == len(calls)
    for number, (message, value) in enumerate(zip(found.json[name], later, strict=True)):
        if path == MESSAGES:
            arguments = message["content"][1]["input"]
        else:
            holder = message if path == RESPONSES else message["tool_calls"][0]["function"]
            arguments = json.loads(holder["arguments"])
        assert alike(arguments, value)
        if alike(value, calls[number]):
            assert ours.items[number].spelled == theirs.items[number].spelled
