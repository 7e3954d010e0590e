"""The files that hold captured exchanges, and what is none of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.servers.profile import Profile
from cacheproxy.record import files
from cacheproxy.record.files import read
from cacheproxy.record.jsonl import to_line
from tests.record.recorded import recorded
from tests.record.test_jsonl import GOOD, GOOD_LINE, SECRET, texts


def test_a_profile_counts_for_the_lines_below_it(tmp_path):
    """Until another is said, and within its file alone; what cannot be read is none."""
    one, other = Profile(page="/tokenize"), Profile()
    without, with_one = recorded("POST", "/"), recorded("POST", "/", profile=one)
    lines = [
        to_line(without),
        to_line(with_one),
        to_line(with_one, repeats=True),
        to_line(recorded("POST", "/", profile=other)),
        to_line(without),
        to_line(with_one).replace(b'"page": ', b'"order": '),
        to_line(without),
    ]
    assert lines[2] == lines[0]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"".join(lines))
    found, problems = read(tmp_path)
    expected = [None, one, one, other, other, None, None]
    assert [each.profile for each in found] == expected * 2
    assert problems == []


def test_the_plain_form(tmp_path):
    """Headers as an object, the body as text: what the simplest recorder writes."""
    records = [
        GOOD | {"t": 0.5},
        GOOD | {"headers": {"X-Api-Key": SECRET, "x-session-id": "ü€"}, "body": "half \ud83d"},
        {"method": "HEAD", "path": "/", "headers": {}, "body": None},
    ]
    file = tmp_path / "plain.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    (first, second, third), problems = read(file)
    assert problems == []
    assert first == recorded("POST", "/v1/messages", ((b"user-agent", b"x/1"),), b"{}", wall=0.5)
    assert second.received.headers[0] == (b"X-Api-Key", b"redacted")
    assert second.received.headers[1][1].decode() == "ü€"
    assert second.received.body == b"half \xed\xa0\xbd"
    assert third.received.body == b""


def test_recorded_traffic_is_read(captures, captured):
    """Every line of it, in order, with the bodies to the byte."""
    records, problems = read(sorted(captures.glob("*.jsonl")))
    assert problems == []
    assert read(captures) == (records, [])
    bodies = [request.body for requests in captured.values() for request in requests]
    came = [record.received for record in records]
    assert [request.body for request in came if request.method == "POST"] == bodies


def problems_of(path, text):
    path.write_bytes(text)
    records, problems = read(path)
    return records, [str(problem).removeprefix(f"{path}") for problem in problems]


def test_a_cut_line_is_named_and_the_others_are_used(tmp_path):
    """A power cut, a file that is still being written, a server's word before it all."""
    text = f"Ready.\n\n{GOOD_LINE}\n{GOOD_LINE[:30]}\n{GOOD_LINE}\r\n{GOOD_LINE[:-3]}"
    records, problems = problems_of(tmp_path / "x.jsonl", text.encode())
    assert len(records) == 2
    assert problems == [
        f":{line}"
        for line in (
            "1: not JSON",
            ("4: cut off: not a complete JSON value"),
            "6: cut off: not a complete JSON value",
        )
    ]


def test_many_bad_lines_are_counted(tmp_path):
    """Ten are named."""
    records, problems = problems_of(tmp_path / "x.jsonl", b"{x}\n" * 1000 + GOOD_LINE.encode())
    assert len(records) == 1
    assert len(problems) == 11
    assert problems[0] == ":1: not JSON"
    assert problems[-1] == ": and 990 more such lines"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_packed_file_is_read_as_it_is(tmp_path, pack, monkeypatch):
    """By its first bytes, whatever it is called; not one that comes to too much."""
    text = (GOOD_LINE + "\n").encode() * 3
    records, problems = problems_of(tmp_path / "x", pack(text))
    assert (len(records), problems) == (3, [])
    (tmp_path / "one.jsonl.xz").write_bytes(pack(text))
    assert len(read(tmp_path)[0]) == 3
    monkeypatch.setattr(files, "_MOST_BYTES", len(text) - 1)
    assert "once it is unpacked" in problems_of(tmp_path / "x", pack(text))[1][0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (gzip.compress(GOOD_LINE.encode(), mtime=0)[:40], "packed, and damaged or cut short"),
        (lzma.compress(GOOD_LINE.encode())[:-30], "packed, and damaged or cut short"),
        (gzip.compress(b"PK\x03\x04\x14", mtime=0), "a zip archive"),
        (b"\x28\xb5\x2f\xfd\x00", "compressed by zstd"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (GOOD_LINE.encode("utf-16"), "UTF-16 text"),
        (b"6741:9:websocket;0:~8:response;", "mitmproxy's own format"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "captured packets"),
        (b"\x89PNG\r\n\x1a\n", "neither JSON lines of exchanges nor a HAR"),
        (b"12:04:31 claude/3f9a #14\n" * 100, "neither JSON lines"),
        (b"[1, 2]", "neither JSON lines"),
        (SECRET.encode(), "neither JSON lines"),
        (b'{\n  "name": "x"\n}', "JSON, but not a HAR: it"),
        (b'{\n  "log": [1]\n}', "JSON, but not a HAR: it"),
        (b'{"log": {"entries": 5}}', "JSON, but not a HAR: it"),
        (b'{"log": {"entries": [', "cut off"),
        (b'{\r\n "log": {"entries": [x]}}', "not JSON"),
    ],
)
def test_a_file_of_another_kind(tmp_path, text, why):
    """Is one line, which names the kind where people are likely to hand it over."""
    records, (problem,) = problems_of(tmp_path / "x", text)
    assert records == []
    assert problem.startswith(f": {why}")
    assert SECRET not in problem


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    """Of lines or of a HAR."""
    for text in (GOOD_LINE, '{"log": {"entries": []}}', '{\n"log": {"entries": []}}'):
        file = tmp_path / "x"
        file.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert read(file)[1] == []


def test_folders(tmp_path):
    """Their *.jsonl and *.har, by name; other files are nobody's business."""
    (tmp_path / "b.jsonl").write_text(GOOD_LINE)
    (tmp_path / "a.HAR").write_text('{"log": {"entries": []}, "x": 1}')
    (tmp_path / "c.txt").write_text(SECRET)
    (tmp_path / "empty").mkdir()
    assert len(read(tmp_path)[0]) == 1
    assert read(str(tmp_path)) == read([tmp_path])
    _, (problem,) = read(tmp_path / "empty")
    assert str(problem) == f"{tmp_path / 'empty'}: holds no capture (.jsonl, .har)"


def test_what_cannot_be_read(tmp_path):
    """Is one line, and the rest is read."""
    (tmp_path / "good.jsonl").write_text(GOOD_LINE)
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    records, problems = read([tmp_path / "none", tmp_path])
    assert len(records) == 1
    assert [str(problem).partition(": ")[2] for problem in problems] == [
        "cannot be read: No such file or directory",
        "cannot be read: Too many levels of symbolic links",
    ]


def test_a_pipe(tmp_path):
    """A file need not be one: cacheproxy capture list <(zcat ...)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(f"{GOOD_LINE}\n" * 3,))
    writer.start()
    records, problems = read(pipe)
    writer.join()
    assert (len(records), problems) == (3, [])


@given(st.binary(max_size=80) | texts.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_whatever_a_file_holds_nothing_is_raised(tmp_path_factory, data):
    """And each problem is one line."""
    file = tmp_path_factory.getbasetemp() / "anything.jsonl"
    for text in (data, b"{" + data, GOOD_LINE.encode() + b"\n" + data, b'{"log":' + data):
        file.write_bytes(text)
        for problem in read(file)[1]:
            assert "\n" not in str(problem)
