"""Tools known from the turn before keep their order and spelling; their set never changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.compare import alike
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import TOOLS_AS_BEFORE
from cacheproxy.core.rules.fold import normalize

A, B, C = '{"name": "a", "input_schema": {"x": 1, "y": [2]}}', '{"name":"b"}', '{ "name":"c" }'
A_AGAIN = '{"input_schema":{"y":[2],"x":1.0},"name":"\\u0061"}'


def request(*tools: str, path="/v1/messages", before=True, memo=None) -> Request:
    texts = ('"model":"m"', '"tools": [ ' + " , ".join(tools) + " ]", '"messages":[]')
    body = "{" + ", ".join(texts if before else texts[::-1]) + "}"
    return Request("POST", path, body=body.encode(), memo=memo)


def tools_of(request: Request) -> list[str]:
    return [item.spelled.decode() for item in request.document.array("tools").items]


def sent(now: Request, before: Request | None) -> Request:
    """The request as the rule leaves it; a second pass leaves it as it is."""
    done = normalize(now, [TOOLS_AS_BEFORE], before)
    assert not any(report.error for report in done.reports)
    assert normalize(done.request, [TOOLS_AS_BEFORE], before).request is done.request
    return done.request


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("earlier", "now", "expected"),
    [
        ((A, C), (A, B, C), [A, C, B]),
        ((A, B, C), (C, B, A), [A, B, C]),
        ((A, B, C), (C, A), [A, C]),
        ((A, B), (B, A_AGAIN), [A, B]),
        ((A, B), (C, A), [A, C]),
        ((A,), (), []),
        ((), (B, A), [B, A]),
    ],
)
def test_known_tools_come_first_as_they_were(earlier, now, expected, before):
    """Wherever the tools stand in the body; new ones follow in the client's order."""
    found = sent(request(*now, before=before), request(*earlier, before=before))
    assert tools_of(found) == expected


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_function_is_known_by_its_name_and_a_built_in_tool_by_its_type(path):
    search, wrapped = '{"type":"web_search"}', '{"type":"function","function":{"name":"f"}}'
    found = sent(request(A, wrapped, search, path=path), request(search, wrapped, path=path))
    assert tools_of(found) == [search, wrapped, A]


@pytest.mark.parametrize(
    "now",
    [
        ('{"name":"a","input_schema":{"x":1,"y":[2,3]}}', B),
        ('{"name":"a","input_schema":{"x":true,"y":[2]}}', B),
        ('{"name":"a","input_schema":{"x":"1","y":[2]}}', B),
    ],
)
def test_a_tool_that_says_something_else_is_the_clients(now):
    """The server sees what the client says."""
    asked = request(*now)
    assert sent(asked, request(A, B)) is asked


@pytest.mark.parametrize(
    ("earlier", "now"),
    [((A, B), (B, B, A)), ((A, A, B), (B, A)), ((A, B), (B, '{"no":"name"}', A)), ((A, B), ("1",))],
)
def test_tools_that_cannot_be_told_apart_stay_where_they_are(earlier, now):
    asked = request(*now)
    assert sent(asked, request(*earlier)) is asked


def test_equal_tools_cost_no_reading_of_the_turn_before():
    """Though the messages have grown, on either side of them."""
    for before in (True, False):
        now = request(A, B, before=before)
        grown = now.with_text(now.body.decode().replace('"messages":[]', '"messages":[{}, {}]'))
        previous = request(A, B, before=before)
        assert sent(grown, previous) is grown
        assert not previous.is_read


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"tools":{}}', b'{"tools":[1,"a",null]}'])
def test_odd_bodies_go_on_as_they_came(body):
    odd = Request("POST", "/v1/messages", body=body)
    assert sent(odd, request(A, B)) is odd
    assert tools_of(sent(request(A, B), odd)) == [A, B]
    assert sent(request(B, A), None).body == request(B, A).body


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
NAMED = st.dictionaries(st.sampled_from("abcdefg"), VALUES, max_size=7)


def spelled(value: object, draw) -> str:
    """``value`` with its members in some order, and some spaces and escapes."""

    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in draw(st.permutations(list(value)))}
        return [shuffled(one) for one in value] if isinstance(value, list) else value

    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :\t")]))
    return json.dumps(shuffled(value), ensure_ascii=True, separators=separators)


@given(st.data(), NAMED, NAMED)
def test_neither_the_set_of_tools_nor_what_they_say_changes(data, earlier, later):
    """Whatever came before; what both have and say alike keeps its order and its bytes."""
    kept = {name: earlier[name] for name in earlier if data.draw(st.booleans())}
    later = {**later, **kept}
    memo = data.draw(st.sampled_from([None, Memo()]))

    def made(tools: dict[str, object]) -> Request:
        order = data.draw(st.permutations(list(tools)))
        texts = [spelled({"name": name, "schema": tools[name]}, data.draw) for name in order]
        return request(*texts, memo=memo)

    before, now = made(earlier), made(later)
    found = sent(now, before)
    assert len(found.json["tools"]) == len(now.json["tools"])
    by_name = {tool["name"]: tool for tool in found.json["tools"]}
    assert by_name.keys() == later.keys()
    assert all(alike(by_name[name]["schema"], later[name]) for name in later)
    known = [tool["name"] for tool in before.json["tools"] if tool["name"] in later]
    assert [tool["name"] for tool in found.json["tools"]][: len(known)] == known
    ours = dict(zip((tool["name"] for tool in found.json["tools"]), tools_of(found), strict=True))
    theirs = dict(
        zip((tool["name"] for tool in before.json["tools"]), tools_of(before), strict=True)
    )
    assert all(ours[name] == theirs[name] for name in kept)
    outside = (now.body.partition(b'"tools"')[0], now.body.rpartition(b"]")[2])
    assert found.body.startswith(outside[0])
    assert found.body.endswith(outside[1])
