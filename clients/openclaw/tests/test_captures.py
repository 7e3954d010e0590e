"""Recorded OpenClaw sessions: only what the rules name changes, and turns extend one another."""

from __future__ import annotations

import json
import re

import cacheproxy_openclaw
import pytest
from cacheproxy_openclaw import cacheproxy_session

from cacheproxy.testing import (
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
    rules_of,
)

CAPTURES = find_captures("openclaw*.jsonl", __file__)
each_capture = pytest.mark.parametrize("path", CAPTURES, ids=capture_name)

RULES = rules_of(cacheproxy_openclaw)
ON = [rule for rule in RULES if rule.default]
STAMP = re.compile(rb'"(?:content|text)":"(\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d UTC\] )')


def turns_of(path):
    """The turns of each session; heartbeats and subagent results, with other tools, apart."""
    found = {}
    for one in load_capture(path):
        if one.json:
            key = (cacheproxy_session(one), json.dumps(one.json["tools"]))
            found.setdefault(key, []).append(one)
    return found.values()


@each_capture
def test_only_timestamps_change_by_default(path):
    """Current versions have no message ids; every byte but the stamps stays."""
    stamps = 0
    for one in load_capture(path):
        assert normalized(ON, one).body == STAMP.sub(
            lambda found: found[0][: -len(found[1])], one.body
        )
        stamps += len(STAMP.findall(one.body))
    assert stamps


@each_capture
def test_every_turn_extends_the_one_before(path):
    """With the date and the internal contexts kept."""
    assert any(len(turns) > 1 for turns in turns_of(path))
    assert [parted(turns, RULES) for turns in turns_of(path) if parted(turns, RULES)] == []


def test_without_a_carrier_nothing_has_to_be_left_out():
    """2026.6.11 appends and does nothing else."""
    (path,) = find_captures("openclaw_2026.6.11-completions.jsonl", __file__)
    assert [parted(turns, ON) for turns in turns_of(path) if parted(turns, ON)] == []


@each_capture
def test_every_request_says_its_session(path):
    """The id is the same in every turn, and a subagent has its own."""
    requests = [one for one in load_capture(path) if one.json]
    sessions = {cacheproxy_session(one) for one in requests}
    assert len(sessions) == (2 if capture_name(path) == "openclaw-gateway" else 1)
    assert all(re.fullmatch(r"openclaw/[0-9a-f-]{36}", session) for session in sessions)
