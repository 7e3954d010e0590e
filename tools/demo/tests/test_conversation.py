"""The recorded conversations are what was captured.

``python test_conversation.py CAPTURE.jsonl.xz OUT.json.gz`` makes one.
"""

import gzip
import json
import lzma
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from cacheproxy_demo.conversation import CCH, LATE, load, marked
from cacheproxy_demo.run import to_chat

from cacheproxy.testing import find_captures

CAPTURES = {
    CCH: "claude_2.1.114-localmodel.jsonl",
    LATE: "claude_2.1.280-countdown.jsonl",
}

KEPT = ("user-agent", "x-app", "x-claude-code-session-id", "anthropic-version", "anthropic-beta")

both = pytest.mark.parametrize("name", [CCH, LATE])


def requests(capture):
    """The main requests of a capture with their bodies as text, in order."""
    rows = map(json.loads, lzma.decompress(capture.read_bytes()).splitlines())
    return [row for row in rows if row["method"] == "POST" and "/v1/messages" in row["path"]]


def pack(rows):
    bodies = [json.loads(row["body"]) for row in rows]
    headers = rows[-1]["headers"]
    return {
        "client": "Claude Code " + re.search(r"claude-cli/(\S+)", json.dumps(headers))[1],
        "headers": {name: value for name, value in headers.items() if name.lower() in KEPT},
        "last": bodies[-1],
        "turns": [
            {
                "billing_header": body["system"][0]["text"],
                "history": len(body["messages"]) - 1,
                "message": body["messages"][-1],
            }
            for body in bodies
        ],
    }


def compact(body):
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


@both
def test_the_fixture_is_the_capture_byte_for_byte(name):
    conversation = load(name)
    (capture,) = find_captures(CAPTURES[name], __file__)
    rows = requests(capture)
    assert [row["body"] for row in rows] == [
        compact(conversation.body(number)) for number in range(1, len(conversation.turns) + 1)
    ]
    packed = pack(rows)
    assert packed["client"] == conversation.client == f"Claude Code {name.rpartition('-')[2]}"
    assert packed["headers"] == conversation.headers


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


def test_in_openais_shape_too_the_header_is_all_that_changes_in_the_history():
    bodies = [load().body(number + 1) for number in range(len(load().turns))]
    chats = [to_chat(body) for body in bodies]
    for body, chat in zip(bodies, chats, strict=True):
        system = chat["messages"][0]["content"]
        assert system.startswith(body["system"][0]["text"] + "\n")
        assert all(block["text"] in system for block in body["system"])
    for earlier, later in pairwise(chats):
        assert earlier["tools"] == later["tools"]
        history = earlier["messages"][1:]
        assert later["messages"][1 : 1 + len(history)] == history


def main(capture, out):
    text = json.dumps(pack(requests(Path(capture))), ensure_ascii=False, separators=(",", ":"))
    Path(out).write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
