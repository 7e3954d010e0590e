"""What msgspec reads of a body is what json's scanner does, or is not believed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document import rawreader, reader
from cacheproxy.core.document.rawreader import read_raw
from cacheproxy.core.document.spans import Container
from tests.core import spelling


def all_of(container: Container | None) -> object:
    if container is None:
        return None
    places = (container.keys, container.starts, container.value_starts, container.ends)
    said = (repr(container.values), repr(container.value), container.length)
    return (*places, *said, list(map(all_of, container.inner)))


def spellings(text: str) -> list[str]:
    """``text``, and how programs would spell what it says."""
    value = json.loads(text)
    styles = [((",", ":"), False), ((", ", ": "), False), ((",", ":"), True), ((", ", ": "), True)]
    return [text] + [json.dumps(value, separators=one, ensure_ascii=two) for one, two in styles]


@given(spelling.document, st.data())
@settings(max_examples=300)
def test_a_body_is_read_as_the_scanner_reads_it_or_not_at_all(text, data):
    """Whole, cut, or with a sign put in anywhere."""
    for spelled in spellings(text):
        start = data.draw(st.integers(0, len(spelled)))
        end = data.draw(st.integers(start, len(spelled)))
        sign = data.draw(st.sampled_from(list(',:" \\{}[]1')))
        cut, longer = spelled[:start] + spelled[end:], spelled[:start] + sign + spelled[start:]
        for one in (spelled, cut, longer):
            body = one.encode(errors="replace")
            root = read_raw(body)
            if root is not None:
                start, read = reader.read(body)
                assert (start, all_of(read)) == (0, all_of(root))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_what_programs_write_is_read(separators):
    """Compact, or with one space behind each comma and colon."""
    value = {"é": 1, "s": 'a\\"b', "l": [1, "x, y", {"a": [2]}], "o": {"k": None}, "e": [], "f": {}}
    body = json.dumps(value, separators=separators, ensure_ascii=False).encode()
    root = read_raw(body)
    assert root is not None
    assert root.value == value
    assert all_of(root) == all_of(reader.read(body)[1])


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":[1],"a":2}',
        '{"a":{},"a":2}',
        '{"a":{"z":1,"b":2},"a":"abcd","b":3}',
        '{"a":{"b":1,"b":1}}',
        '{"a" :1}',
        '{"a":1, "b":2}',
        '{"a":[1, 2,3]}',
        '{"a":[1,2, 3]}',
        '{"a":[ 1]}',
        '{"\\u0061":1}',
        '{"a":"\\ud83d"}',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":1} ',
        ' {"a":1}',
    ],
)
def test_what_is_spelled_otherwise_is_left_to_the_scanner(text):
    """It is understood all the same."""
    assert read_raw(text.encode()) is None
    assert reader.read(text.encode())[1].value is not None


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'{"a":1}}', b'{"a":"\xff"}', b"{}x"])
def test_what_is_no_object_is_not_read(body):
    """Why is for the scanner to say."""
    assert read_raw(body) is None


def test_what_would_keep_other_threads_waiting_is_not_read(monkeypatch):
    """Very large bodies, and larger ones of many small values."""
    body = b'{"a":[' + b"1," * 100 + b"1]}"
    assert read_raw(body) is not None
    monkeypatch.setattr(rawreader, "_COUNTED_ABOVE", 100)
    monkeypatch.setattr(rawreader, "MOST_COMMAS", 99)
    assert read_raw(body) is None
    monkeypatch.setattr(rawreader, "MOST_COMMAS", 100)
    assert read_raw(body) is not None
    monkeypatch.setattr(rawreader, "MOST_BYTES", 100)
    assert read_raw(body) is None


def test_a_text_full_of_escapes_is_left_to_the_scanner():
    """Where it stands at the root, its end would have to be looked for escape by escape."""
    few, many = (json.dumps({"s": "\n" * count}).encode() for count in (500, 2000))
    assert read_raw(few) is not None
    assert read_raw(many) is None
    assert read_raw(b'{"l": [%b]}' % json.dumps("\n" * 2000).encode()) is not None
