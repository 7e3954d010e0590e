"""The helpers that client packages test with do what their docstrings say."""

import gzip
import json
import lzma
from dataclasses import replace
from functools import partial

import pytest

from cacheproxy import Rule
from cacheproxy.testing import (
    APIS,
    assert_told_once,
    capture_name,
    conversation,
    find_captures,
    load_capture,
)
from tests import transcript


def test_what_each_helper_says():
    transcript.holds("helpers.txt", globals())


def test_a_capture_is_loaded_line_by_line(tmp_path):
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
    (tmp_path / "one" / "tests" / "captures").mkdir(parents=True)
    with pytest.raises(AssertionError, match=r"matches one\*\.jsonl"):
        find_captures("one*.jsonl", tmp_path / "one" / "test_x.py")
    with pytest.raises(AssertionError, match="there is no folder tests/captures"):
        find_captures("one*.jsonl", "/test_x.py")


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
