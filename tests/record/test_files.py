"""The files that hold captured exchanges, and what is none of them (files.txt)."""

import json
import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.record.files import read
from tests import transcript
from tests.record.test_jsonl import GOOD_LINE, texts


def test_what_is_read(tmp_path, monkeypatch):
    """Names the kind where people are likely to hand it over; the rest is used."""

    def wrote(text, name="x"):
        data = text.encode() if isinstance(text, str) else text
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    def said(*paths):
        """How many exchanges are read, and what is said of the rest, which quotes nothing."""
        records, problems = read(list(paths))
        found = [str(problem).removeprefix(f"{tmp_path}/") for problem in problems]
        assert "kanarienvogel" not in str(found)
        return len(records), found

    def piped(text):
        """Of a pipe: a file need not be one, as with cacheproxy capture list <(zcat ...)."""
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
        writer.start()
        found = said(tmp_path / "pipe")
        writer.join()
        return found

    names = {"wrote": wrote, "said": said, "piped": piped, "folder": tmp_path}
    transcript.holds("files.txt", globals() | names | {"monkeypatch": monkeypatch})


def test_recorded_traffic_is_read(captures, captured):
    """Every line of it, in order, with the bodies to the byte."""
    records, problems = read(sorted(captures.glob("*.jsonl")))
    assert problems == []
    assert read(captures) == (records, [])
    bodies = [request.body for requests in captured.values() for request in requests]
    came = [record.received for record in records]
    assert [request.body for request in came if request.method == "POST"] == bodies


@given(st.binary(max_size=80) | texts.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_whatever_a_file_holds_nothing_is_raised(tmp_path_factory, data):
    """And each problem is one line."""
    file = tmp_path_factory.getbasetemp() / "anything.jsonl"
    for text in (data, b"{" + data, GOOD_LINE.encode() + b"\n" + data, b'{"log":' + data):
        file.write_bytes(text)
        for problem in read(file)[1]:
            assert "\n" not in str(problem)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)
