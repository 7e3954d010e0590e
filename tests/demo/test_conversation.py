"""The fixtures give back what was recorded."""

import json
import re
from importlib.resources import files

import pytest

from cacheproxy.demo.conversation import CCH, LATE, load, marked

from .pack import pack, requests

CAPTURES = {
    CCH: "claude_2.1.114-localmodel.jsonl",
    LATE: "claude_2.1.280-countdown.jsonl",
}

both = pytest.mark.parametrize("name", [CCH, LATE])


def compact(body):
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


@both
def test_every_body_is_rebuilt_byte_for_byte(captures, name):
    conversation = load(name)
    rows = requests(captures / CAPTURES[name])
    assert [row["body"] for row in rows] == [
        compact(conversation.body(number)) for number in range(1, len(conversation.turns) + 1)
    ]


@both
def test_packing_the_capture_again_gives_the_fixture(captures, name):
    packed = pack(requests(captures / CAPTURES[name]))
    conversation = load(name)
    assert packed["client"] == conversation.client == f"Claude Code {name.rpartition('-')[2]}"
    assert packed["headers"] == conversation.headers
    assert packed["last"] == conversation.last


@both
def test_the_fixture_is_small(name):
    assert len(files("cacheproxy.demo").joinpath(f"{name}.json.gz").read_bytes()) <= 45_000


def test_every_turn_has_another_cch_and_nothing_else_differs_in_its_header():
    headers = [turn.billing_header for turn in load(CCH).turns]
    assert len({re.search("cch=([0-9a-f]{5});", header)[1] for header in headers}) == len(headers)
    assert len({re.sub("cch=[^;]*", "", header) for header in headers}) == 1


def test_every_turn_ends_with_a_system_message_that_counts_down():
    conversation = load(LATE)
    last = [conversation.body(number + 1)["messages"][-1] for number in range(6)]
    assert {message["role"] for message in last} == {"system"}
    assert all("<total_tokens>" in json.dumps(message["content"]) for message in last)
    assert len({turn.billing_header for turn in conversation.turns}) == 1


def test_a_body_is_the_callers_to_change():
    conversation = load()
    conversation.body(1)["messages"][0]["content"].clear()
    assert conversation.body(1)["messages"][0]["content"]


@both
def test_the_mark_stands_first_in_the_tools_and_right_after_the_billing_header(name):
    body = load(name).body(1)
    changed = marked(body, "[one]")
    assert changed["system"][0] == body["system"][0]
    assert changed["system"][1]["text"] == "[one]\n" + body["system"][1]["text"]
    assert changed["tools"][0]["description"] == "[one]\n" + body["tools"][0]["description"]
    assert changed["messages"] == body["messages"]
