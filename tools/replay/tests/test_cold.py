"""A mark stands where templates begin, and where no rule stumbles over it."""

import json

import pytest
from cacheproxy_replay.cold import erase, marked, new_mark

from cacheproxy.asking import CommandError, Site
from cacheproxy.core.prompt.request import Request
from tests import conversation
from tests.peer import NOBODY

LONG = "word " * 100


def mark_in(target, body):
    return json.loads(marked(Request("POST", target, (), json.dumps(body).encode()), "M").body)


def test_no_two_marks_are_alike():
    assert new_mark() != new_mark()


@pytest.mark.parametrize("dialect", conversation.PATHS)
def test_the_system_text_and_the_first_tool_are_marked(dialect):
    body = conversation.body(dialect, 1)
    sent = json.dumps(mark_in(conversation.PATHS[dialect].partition("?")[0], body))
    assert sent.count("M\\n") == 2
    assert '"M\\nReads a file' in sent
    assert "nonce-00011eef\\nM\\nYou are" in sent


def test_a_header_alone_in_its_block_stays_alone():
    blocks = [{"type": "text", "text": "x-header: 1"}, {"type": "text", "text": LONG}]
    sent = mark_in("/v1/messages", {"system": blocks, "messages": []})
    assert [block["text"] for block in sent["system"]] == ["x-header: 1", f"M\n{LONG}"]


@pytest.mark.parametrize(
    ("text", "with_mark"),
    [(LONG, f"M\n{LONG}"), ("short", "short\nM"), ("head\nbody", "head\nM\nbody")],
)
def test_a_prompt_without_system_text_is_marked_in_its_first_message(text, with_mark):
    sent = mark_in("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]})
    assert sent["messages"][0]["content"] == with_mark


def test_a_tool_without_a_description_leaves_the_mark_to_the_next():
    tools = [{"type": "web_search"}, {"name": "t", "parameters": {"description": "d"}}]
    sent = mark_in("/v1/responses", {"tools": tools, "input": "hi"})
    assert sent["tools"][1]["parameters"]["description"] == "M\nd"
    assert sent["input"] == "hi\nM"


def test_a_server_that_cannot_empty_its_slots_is_told():
    with pytest.raises(CommandError, match="--slot-save-path"):
        erase(Site(NOBODY))
