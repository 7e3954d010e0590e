"""A tool call that the client spells anew keeps the spelling of the turn before."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.compare import alike
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import CALLS_AS_BEFORE
from cacheproxy.core.rules.fold import normalize
from tests.core.rules.test_tools_as_before import VALUES, spelled

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
PATHS = (CHAT, MESSAGES, RESPONSES)
FIRST, AGAIN = '{"b": 1.0, "a": "é"}', '{"a":"\\u00e9","b":1}'


def call(path: str, text: str, name: str = "call_1") -> str:
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


def said(text: str) -> str:
    return json.dumps({"role": "user", "content": text})


def request(path: str, *messages: str, head: str = "", memo=None) -> Request:
    name = "input" if path == RESPONSES else "messages"
    body = f'{{"model":"m{head}", "{name}":[{", ".join(messages)}],"stream":true}}'
    return Request("POST", path, body=body.encode(), memo=memo)


def sent(now: Request, before: Request | None) -> Request:
    """The request as the rule leaves it; a second pass leaves it as it is."""
    done = normalize(now, [CALLS_AS_BEFORE], before)
    assert not any(report.error for report in done.reports)
    assert normalize(done.request, [CALLS_AS_BEFORE], before).request is done.request
    return done.request


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("head", ["", "1"])
def test_a_call_keeps_its_first_spelling(path, head):
    """As the turn before sent it; nothing else of the body changes, wherever it stands."""
    before = request(path, said("go"), call(path, FIRST), said("done"))
    now = request(path, said("go"), call(path, AGAIN), said("done"), said("more"), head=head)
    expected = request(path, said("go"), call(path, FIRST), said("done"), said("more"), head=head)
    assert sent(now, before).body == expected.body


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "text", ['{"b":1,"a":"e"}', '{"a":"é","b":true}', '{"a":"é"}', '{"a":"é","b":1,"c":null}', "{}"]
)
def test_a_call_that_was_changed_is_the_clients(path, text):
    """A client may have edited the call; the server must see what the client says."""
    now = request(path, call(path, text), said("more"))
    assert sent(now, request(path, call(path, FIRST))) is now


class Searched(bytes):
    """A body that counts how often it is searched."""

    searches = 0

    def find(self, *arguments):
        self.searches += 1
        return super().find(*arguments)


@pytest.mark.parametrize("path", PATHS)
def test_many_calls_cost_no_search_of_the_turn_before_each(path):
    """A client may give its calls new ids; the turn before may be long."""
    searches = []
    for count in (100, 1000):
        before, now = (
            request(path, *(call(path, FIRST, f"{kind}_{number}") for number in range(count)))
            for kind in ("old", "new")
        )
        body = Searched(before.body)
        assert sent(now, replace(before, body=body)) is now
        searches.append(body.searches)
    assert searches[0] == searches[1]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("count", [1, 60])
def test_of_few_calls_and_of_many_each_keeps_its_spelling(path, count):
    before, now = (
        request(path, *(call(path, text, f"call_{number}") for number in range(count)))
        for text in (FIRST, AGAIN)
    )
    assert sent(now, before).body == before.body


@pytest.mark.parametrize("path", PATHS)
def test_a_call_of_another_id_is_another_call(path):
    now = request(path, call(path, AGAIN, "call_2"))
    assert sent(now, request(path, call(path, FIRST))) is now


@pytest.mark.parametrize("path", PATHS)
def test_a_call_that_moved_is_found_by_its_id(path):
    """A history that was cut has other numbers."""
    before = request(path, said("one"), said("two"), call(path, FIRST), said("done"))
    now = request(path, said("two"), call(path, AGAIN), said("done"))
    assert (
        sent(now, before).body == request(path, said("two"), call(path, FIRST), said("done")).body
    )


@pytest.mark.parametrize("path", PATHS)
def test_of_calls_with_one_id_each_unchanged_one_stays(path):
    """Some servers count the calls of each answer from 0."""
    before = request(path, call(path, FIRST), said("done"), call(path, AGAIN), said("done"))
    now = request(path, call(path, FIRST), said("Done"), call(path, AGAIN), said("done"))
    assert sent(now, before) is now


@pytest.mark.parametrize("path", PATHS)
def test_what_was_only_appended_costs_no_reading_of_the_turn_before(path):
    """Also where the last message of the turn before reads differently now."""
    before = request(path, said("go"), call(path, FIRST), said("done"))
    now = request(path, said("go"), call(path, FIRST), said("Done"), call(path, AGAIN, "call_2"))
    assert sent(now, before) is now
    assert not before.is_read


@pytest.mark.parametrize("text", ["not JSON", '"text"', "[1]", '{"a":NaN}', "[" * 5000, ""])
def test_odd_arguments_stay(text):
    now, before = (request(CHAT, call(CHAT, one)) for one in (text, FIRST))
    assert sent(now, before) is now
    assert sent(before, now) is before


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
    now, before = request(MESSAGES, other), request(MESSAGES, message)
    assert sent(now, before) is now
    assert sent(now, Request("POST", MESSAGES, body=b"no json")) is now


@given(st.data(), st.sampled_from(PATHS), st.lists(st.dictionaries(st.text(), VALUES), max_size=4))
def test_arguments_never_mean_anything_else(data, path, calls):
    """However both turns spell them; those alike to before have its bytes."""
    memo = data.draw(st.sampled_from([None, Memo()]))

    def made(changes: bool) -> Request:
        values = [
            {"new": 0} if changes and data.draw(st.booleans()) else arguments for arguments in calls
        ]
        messages = [
            call(path, spelled(value, data.draw), f"call_{number}")
            for number, value in enumerate(values)
        ]
        return request(path, *messages, memo=memo), values

    before, earlier = made(changes=False)
    now, later = made(changes=True)
    found = sent(now, before)
    name = "input" if path == RESPONSES else "messages"
    assert len(found.json[name]) == len(calls)
    ours, theirs = (one.document.array(name) for one in (found, before))
    for number, value in enumerate(later):
        message = found.json[name][number]
        if path == MESSAGES:
            arguments = message["content"][1]["input"]
        else:
            holder = message if path == RESPONSES else message["tool_calls"][0]["function"]
            arguments = json.loads(holder["arguments"])
        assert alike(arguments, value)
        if alike(value, earlier[number]):
            assert ours.items[number].spelled == theirs.items[number].spelled
