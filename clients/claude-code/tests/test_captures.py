"""Recorded Claude Code sessions: every turn of the main path extends the one before."""

from __future__ import annotations

import json
from itertools import pairwise

import cacheproxy_claude_code
import pytest

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.core.placement.placing import place
from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
    rule_named,
    rules_of,
)

CAPTURES = find_captures("claude*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES, ids=capture_name)

RULES = rules_of(cacheproxy_claude_code)
DEFAULT = [rule for rule in RULES if rule.default]
DROP = rule_named(RULES, "claude-drop-billing-header")
PLACEMENTS = [alike(Late.REFUSED, "test"), alike(Late.REFUSED, "test", joins=True)]
"""Of servers that refuse Claude Code's late system messages: in place, and joined."""
CHOICES = {
    "default": DEFAULT,
    "drop": [DROP, *DEFAULT],
}

# What really changes: (turns of one session, counted from 0) that no rule is to make alike.
REAL_CHANGES = {
    "claude-compact": {4, 5},  # /compact is asked a second time; then the history is a summary
    "claude-toolsearch": {3},  # tools are inserted
    "claude_2.1.197-resume": {2},  # another model, named in a tool's description
}


def sessions(path):
    """The turns of each session and subagent; requests without tools are side requests."""
    found = {}
    for one in load_capture(path):
        if one.path == "/v1/messages" and one.json.get("tools"):
            found.setdefault(session_of(one).id, []).append(one)
    return found.values()


def placed(one, placement):
    """What goes on for a request whose late system messages have to be placed."""
    after, report = place(one, placement)
    assert report is None or report.error is None
    assert place(after, placement) == (after, None)
    return after


@each_capture
@pytest.mark.parametrize("choice", CHOICES)
def test_every_turn_extends_the_one_before(path, choice):
    """Only real changes part the prompt of a turn from that of the one before; placed, too."""
    changes = REAL_CHANGES.get(capture_name(path), ())
    for turns in sessions(path):
        previous = None
        for number, one in enumerate(turns):
            current = normalized(CHOICES[choice], one, previous)
            if previous is not None and number not in changes:
                assert_extends(previous, current)
                for placement in PLACEMENTS:
                    assert_extends(placed(previous, placement), placed(current, placement))
            previous = current


@pytest.mark.parametrize(
    "name",
    ["claude_2.1.114-localmodel", "claude_2.1.174-gitchange", "claude-datechange_bare"],
)
def test_without_the_rules_the_turns_part(name):
    """The header parts them, the git status or the date; with the rules nothing does."""
    (path,) = find_captures(f"{name}.jsonl", __file__)
    for turns in sessions(path):
        assert parted(turns, DEFAULT) == {}
        assert len(parted(turns)) == (1 if name == "claude-datechange_bare" else len(turns) - 1)


def test_two_sessions_share_tools_and_system():
    """Sessions with other first messages have other headers, which become one constant."""
    (path,) = find_captures("claude-twosessions.jsonl", __file__)
    turns = [turn for session in sessions(path) for turn in session]
    assert len(turns) == 3
    assert len({json.dumps(turn.json["system"]) for turn in turns}) == 3
    turns = [normalized(DEFAULT, turn) for turn in turns]
    assert len({json.dumps([turn.json["tools"], turn.json["system"]]) for turn in turns}) == 1


@each_capture
def test_only_the_header_changes_by_default(path):
    """Header in and constant out, every other byte of a body that comes first stays."""
    for one in load_capture(path):
        after = normalized(DEFAULT, one).body
        head, literal, tail = after.partition(b"x-anthropic-billing-header: cc_version=0;")
        assert one.body.startswith(head)
        assert one.body.endswith(tail)
        assert literal or after == one.body


@each_capture
def test_placed_no_system_message_is_left_but_the_head(path):
    """Joined, users and the assistant alternate, and results follow their calls."""
    for one in load_capture(path):
        for placement in PLACEMENTS:
            messages = (placed(one, placement).json or {}).get("messages", [])
            assert "system" not in [message["role"] for message in messages]
        roles = [message["role"] for message in messages]
        assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
        for earlier, later in pairwise(messages):
            blocks = [block for block in earlier["content"] if isinstance(block, dict)]
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            results = [block["tool_use_id"] for block in later["content"][: len(calls)] if calls]
            assert results == calls


@each_capture
def test_normalizing_twice_is_normalizing_once(path):
    """With all rules on, and the previous request at hand."""
    previous = None
    for one in load_capture(path):
        assert_idempotent(RULES, one, previous)
        previous = normalized(RULES, one, previous) if one.json else previous
