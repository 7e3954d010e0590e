"""Tools and tool calls known from the turn before keep their spelling, and tools their order."""

import itertools
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
from tests import transcript

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


def kept(earlier, now):
    """How the tools go on, by their names: in each API, before the messages and behind them."""
    found = set()
    for path, before in itertools.product(PATHS, (True, False)):
        asked = listing(*now, path=path, before=before)
        after = sent(TOOLS_AS_BEFORE, asked, listing(*earlier, path=path, before=before))
        assert (after is asked) == (tools_of(after) == list(now))
        found.add(tuple(tools_of(after)))
    ((*tools,),) = found
    return " ".join(NAMES.get(each, each) for each in tools)


NAMES = {A: "a", A_AGAIN: "a again", B: "b", C: "c", SEARCH: "search", WRAPPED: "f"}


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


def spelled_as(before, now, expected):
    """Whether the request goes on as expected: in each API, where it was and moved by a byte."""
    for path, head in itertools.product(PATHS, ("", "1")):
        asked = asking(path, *now, head=head)
        found = sent(CALLS_AS_BEFORE, asked, asking(path, *before))
        assert found.body == asking(path, *expected, head=head).body, path
        assert (found is asked) == (now == expected)
    return True


def test_what_goes_on():
    transcript.holds("as_before.txt", globals())


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
