"""The fixture gives back what was recorded."""

import json
import re
from importlib.resources import files

from cacheproxy.demo.conversation import FIXTURE, load, marked

from .pack import pack, requests

CAPTURE = "claude_2.1.114-localmodel.jsonl"


def compact(body):
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def test_every_body_is_rebuilt_byte_for_byte(captures):
    conversation = load()
    rows = requests(captures / CAPTURE)
    assert [row["body"] for row in rows] == [
        compact(conversation.body(number)) for number in range(1, len(conversation.turns) + 1)
    ]


def test_packing_the_capture_again_gives_the_fixture(captures):
    packed = pack(requests(captures / CAPTURE))
    conversation = load()
    assert packed["headers"] == conversation.headers
    assert packed["last"] == conversation.last


def test_the_fixture_is_small():
    assert len(files("cacheproxy.demo").joinpath(FIXTURE).read_bytes()) <= 60_000


def test_every_turn_has_another_cch_and_nothing_else_differs_in_its_header():
    headers = [turn.billing_header for turn in load().turns]
    assert len({re.search("cch=([0-9a-f]{5});", header)[1] for header in headers}) == len(headers)
    assert len({re.sub("cch=[^;]*", "", header) for header in headers}) == 1


def test_a_body_is_the_callers_to_change():
    conversation = load()
    conversation.body(1)["messages"][0]["content"].clear()
    assert conversation.body(1)["messages"][0]["content"]


def test_the_mark_stands_first_in_the_tools_and_right_after_the_billing_header():
    body = load().body(1)
    changed = marked(body, "[one]")
    assert changed["system"][0] == body["system"][0]
    assert changed["system"][1]["text"] == "[one]\n" + body["system"][1]["text"]
    assert changed["tools"][0]["description"] == "[one]\n" + body["tools"][0]["description"]
    assert changed["messages"] == body["messages"]
