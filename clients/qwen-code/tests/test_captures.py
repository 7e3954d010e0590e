"""Recorded Qwen Code sessions: resumed after a commit, and in one process."""

from __future__ import annotations

import re

import cacheproxy_qwen_code
import pytest
from cacheproxy_qwen_code import cacheproxy_session

from cacheproxy.testing import (
    assert_untouched,
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
    rules_of,
)

CAPTURES = find_captures("qwen*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES, ids=capture_name)
RULES = rules_of(cacheproxy_qwen_code)
DEFAULT = [rule for rule in RULES if rule.default]


def turns_of(path):
    """The conversation's turns, and the memory extractions."""
    turns = load_capture(path)
    return [turn for turn in turns if len(turn.json["tools"]) > 10], [
        turn for turn in turns if len(turn.json["tools"]) < 10
    ]


@each_capture
def test_every_turn_extends_the_one_before(path):
    """Whatever was committed between the turns; in one process there is nothing to mend."""
    turns, _ = turns_of(path)
    assert len(parted(turns)) == (3 if capture_name(path) == "qwen-resume" else 0)
    assert parted(turns, DEFAULT) == {}
    assert parted(turns, RULES) == {}
    for turn in turns:
        assert_untouched(RULES, turn)


@each_capture
def test_what_changed_is_told_once(path):
    """The user's text stays, and behind it stands what is new in that turn."""
    previous, told = None, []
    for turn in turns_of(path)[0]:
        current = normalized(DEFAULT, turn, previous)
        sent, came = (one.json["messages"][-1]["content"] for one in (current, turn))
        assert sent[: len(came)] == came
        told.append([block["text"].split("\n")[1] for block in sent[len(came) :]])
        previous = current
    git, folders = "The git snapshot is now:", "The folder structure is now:"
    resumed = [[], [], [git, folders], [git], [], [git]]
    assert told == (resumed if capture_name(path) == "qwen-resume" else [[]] * 6)


@each_capture
def test_the_memory_extraction_belongs_to_the_conversation(path):
    """All turns have one session, and the extractions one that names it."""
    turns, extractions = turns_of(path)
    (session,) = {cacheproxy_session(turn) for turn in turns}
    assert re.fullmatch(r"[0-9a-f]{16}", session)
    assert {cacheproxy_session(one) for one in extractions} == {f"{session}:memory"}


def test_reminders_come_back_where_they_were():
    """The date stood in four messages when they were new; the last turn sends it in one."""
    (path,) = find_captures("qwen-resume.jsonl", __file__)
    previous = None
    for turn in turns_of(path)[0]:
        previous = normalized(RULES, turn, previous)
    date = b"The current date is: "
    assert (turn.body.count(date), previous.body.count(date)) == (1, 4)
