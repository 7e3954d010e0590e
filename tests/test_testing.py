"""The helpers that client packages test with do what their docstrings say."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from functools import partial

import pytest

from cacheproxy import CodeRule, Edit, Rule
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.testing import (
    APIS,
    assert_extends,
    assert_idempotent,
    assert_told_once,
    assert_untouched,
    capture_name,
    conversation,
    find_captures,
    load_capture,
    normalized,
    parted,
    request,
    rule_named,
)

NONCE = Rule("nonce", "/system", r"nonce=\w+", "nonce=0")
GROWS = CodeRule("grows", "each pass adds", lambda *_: [Edit("/system", "x", "", (0, 0))])
BROKEN = CodeRule("broken", "edits what is not there", lambda *_: [Edit("/nowhere", 1, "")])
TURN = {
    "tools": [{"name": "ls", "input_schema": {"type": "object", "properties": {}}}],
    "system": "nonce=1 You are helpful.",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
}


def turn(**changes):
    return request({**TURN, **changes})


def test_a_request_is_a_post_with_the_given_body_path_headers():
    """A dict becomes JSON; text and bytes stay; headers become pairs of bytes."""
    made = request({"a": 1}, "/v1/responses", {"User-Agent": "x/1"})
    assert (made.method, made.path, made.dialect) == ("POST", "/v1/responses", RESPONSES)
    assert made.json == {"a": 1}
    assert made.header("user-agent") == "x/1"
    assert request('{"a" : 1.0}').body == b'{"a" : 1.0}'
    assert request(b"\xff").body == b"\xff"


def test_a_capture_is_loaded_line_by_line(tmp_path):
    """Each line of a capture becomes a request; a body may be empty or missing."""
    file = tmp_path / "client-scenario.jsonl"
    records = [
        {"method": "HEAD", "path": "/", "headers": {"Host": "h"}, "body": "", "t": 0.1},
        {"method": "POST", "path": "/v1/messages?beta=true", "headers": [], "body": '{"é":1}'},
    ]
    file.write_text("\n".join(json.dumps(record) for record in records) + "\n", encoding="utf-8")
    head, post = load_capture(file)
    assert (head.method, head.target, head.body, head.header("host")) == ("HEAD", "/", b"", "h")
    assert post.path == "/v1/messages"
    assert post.json == {"é": 1}


@pytest.mark.parametrize(("ending", "packing"), [(".xz", lzma), (".gz", gzip)])
def test_a_packed_capture_is_read_as_if_it_were_unpacked(ending, packing, tmp_path):
    """By the end of the file's name."""
    file = tmp_path / f"client-scenario.jsonl{ending}"
    line = json.dumps({"method": "POST", "path": "/", "headers": {}, "body": "é"})
    file.write_bytes(packing.compress(line.encode()))
    assert [one.body for one in load_capture(file)] == ["é".encode()]
    assert capture_name(file) == "client-scenario"


def test_captures_are_found_in_the_nearest_folder_for_them(tmp_path):
    """Beside the test or above it, packed or not, by name."""
    far, near = tmp_path / "tests" / "captures", tmp_path / "package" / "tests" / "captures"
    for folder in (far, near):
        folder.mkdir(parents=True)
        for name in ("two.jsonl", "one-b.jsonl.xz", "one-a.jsonl", "one-a.txt"):
            (folder / name).touch()
    found = [near / "one-a.jsonl", near / "one-b.jsonl.xz"]
    assert find_captures("one*.jsonl", tmp_path / "package" / "tests" / "x" / "test_x.py") == found
    assert find_captures("two.jsonl", tmp_path / "other" / "test_x.py") == [far / "two.jsonl"]


def test_a_test_without_its_captures_fails(tmp_path):
    """Else it would pass without having looked at anything."""
    (tmp_path / "one" / "tests" / "captures").mkdir(parents=True)
    with pytest.raises(AssertionError, match=r"matches one\*\.jsonl"):
        find_captures("one*.jsonl", tmp_path / "one" / "test_x.py")
    with pytest.raises(AssertionError, match="there is no folder tests/captures"):
        find_captures("one*.jsonl", "/test_x.py")


def test_a_rule_is_found_by_name():
    """An unknown name fails with the names there are."""
    assert rule_named([NONCE, GROWS], "grows") is GROWS
    with pytest.raises(AssertionError, match="no rule is called x; the rules are: nonce"):
        rule_named([NONCE], "x")


def test_a_failing_rule_is_named():
    """Where the proxy leaves a failing rule out, a test fails with its name."""
    with pytest.raises(AssertionError, match="rule broken: PathError"):
        normalized([NONCE, BROKEN], turn())
    assert normalized([NONCE], turn()).json["system"] == "nonce=0 You are helpful."


def test_untouched_means_every_byte():
    """An edit fails the assertion, with the place; none passes."""
    assert_untouched([NONCE], turn(system="You are helpful."))
    with pytest.raises(AssertionError, match="the body was edited, at "):
        assert_untouched([NONCE], turn())


def test_idempotent_means_the_second_pass_changes_nothing():
    """A rule that edits its own result fails."""
    assert_idempotent([NONCE], turn())
    with pytest.raises(AssertionError, match="the second pass edited the body again"):
        assert_idempotent([GROWS], turn())


def test_a_later_turn_extends_an_earlier_one():
    """Appended messages pass, also when content changes its form or cache_control moves."""
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    earlier = turn(messages=[{"role": "user", "content": [marked]}])
    later = turn(
        system=[{"type": "text", "text": "nonce=2 You are helpful."}],
        messages=[{"content": "hi", "role": "user"}, {"role": "assistant", "content": "ho"}],
    )
    with pytest.raises(AssertionError, match="system differs"):
        assert_extends(earlier, later)
    rules = [Rule("nonce", ("/system", "/system/*/text"), r"nonce=\w+", "nonce=0")]
    assert_extends(earlier, later, rules)


def test_a_pin_sees_the_earlier_turn_as_it_was_sent():
    """The earlier request, normalized, is what the later one is pinned to."""
    pin = Rule("pin", "/system", r"nonce=(?P<volatile>\w+)", pin=True)
    assert_extends(turn(), turn(system="nonce=7 You are helpful."), [pin])


@pytest.mark.parametrize("path", APIS)
def test_a_pin_that_keeps_and_tells_passes(path):
    """One that does not tell, and one whose note says something else, does not."""
    pin = Rule(
        "pin", "system", r"at (?P<volatile>\d)", pin=True, note=r"The time is now \g<volatile>."
    )
    first, later = (partial(conversation, path, f"at {digit}") for digit in "12")
    assert_told_once([pin], first, later, "The time is now 2.")
    with pytest.raises(AssertionError, match="what is sent differs"):
        assert_told_once([pin], first, later, "The time is now 3.")
    with pytest.raises(AssertionError, match="what is sent differs"):
        assert_told_once([replace(pin, note=None)], first, later, "The time is now 2.")


def test_turns_that_part_are_numbered():
    """With what differs; each is compared with the one before as it was sent."""
    turns = [
        turn(),
        turn(system="nonce=2 You are helpful."),
        turn(system="other"),
        turn(system="other"),
    ]
    assert list(parted(turns)) == [1, 2]
    ((number, why),) = parted(turns, [NONCE]).items()
    assert (number, why.partition(",")[0]) == (2, "system differs")
    with pytest.raises(AssertionError, match="edited the body again"):
        parted(turns, [GROWS])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tools": []}, "tools differs"),
        (
            {"tools": [{"input_schema": {"properties": {}, "type": "object"}, "name": "ls"}]},
            "tools differs",
        ),
        ({"system": "other"}, "system differs"),
        ({"messages": []}, "messages: 1 became 0"),
        ({"messages": [{"role": "user", "content": "ho"}]}, "messages/0 differs"),
    ],
)
def test_what_parts_the_prompts_is_named(changes, complaint):
    """The order of keys in a tool counts, since templates render it."""
    with pytest.raises(AssertionError, match=complaint):
        assert_extends(turn(), turn(**changes))


def test_responses_extend_by_input():
    """On the Responses API instructions and input are compared."""
    first = {"instructions": "be", "input": "hi"}
    item = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    call = {"type": "function_call", "name": "ls", "arguments": "{}"}
    path = "/v1/responses"
    assert_extends(request(first, path), request({**first, "input": [item, call]}, path))
    with pytest.raises(AssertionError, match="input/0 differs"):
        assert_extends(request(first, path), request({**first, "input": [call, item]}, path))


def test_a_body_that_is_not_json_extends_nothing():
    """Bodies that cannot be compared fail with the reason."""
    with pytest.raises(AssertionError, match="the later body"):
        assert_extends(turn(), request("no"))
