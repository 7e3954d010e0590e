"""Pointers and path patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.pointer import (
    PathError,
    index_in,
    match_paths,
    parse_pattern,
    parse_pointer,
    to_pointer,
)

BODY = {
    "system": "S",
    "messages": [
        {"role": "user", "content": "U0"},
        {"role": "assistant", "content": "A1"},
        {"role": "system", "content": [{"type": "text", "text": "S2"}, {"type": "image"}, "x"]},
        "no object",
        {"content": "no role"},
        {"role": None, "content": "null role"},
        {"role": ["user"], "content": "list role"},
    ],
    "a/b~c": {"0": "zero", "*": "star", "": "empty"},
}


def found(pattern: str, value: object = BODY) -> list:
    return [there for _, there in match_paths(value, pattern)]


@pytest.mark.parametrize(
    ("pointer", "segments"),
    [
        ("", ()),
        ("/", ("",)),
        ("/foo/0", ("foo", "0")),
        ("/a~1b", ("a/b",)),
        ("/m~0n", ("m~n",)),
        ("/~01", ("~1",)),
        ('/c%d/e^f/g|h/i\\j/k"l/ ', ("c%d", "e^f", "g|h", "i\\j", 'k"l', " ")),
        ("//", ("", "")),
    ],
)
def test_pointers_of_rfc_6901(pointer, segments):
    """The examples of RFC 6901, section 5, and the order of unescaping of section 3."""
    assert parse_pointer(pointer) == segments
    assert to_pointer(segments) == pointer


@given(st.lists(st.text(), max_size=4))
def test_any_path_survives_as_a_pointer(path):
    """Member names of any text come back from a pointer."""
    assert list(parse_pointer(to_pointer(path))) == path


@pytest.mark.parametrize("pointer", ["a", "SECRET text", " /a", None, 5, ("a",), b"/a"])
def test_no_pointer_is_refused_without_quoting_it(pointer):
    """It may be prompt text in the wrong argument, so the error does not repeat it."""
    with pytest.raises(PathError) as raised:
        parse_pointer(pointer)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("step", "index"),
    [("0", 0), ("2", 2), ("3", None), ("-1", None), ("01", None), ("²", None), ("٢", None),
     ("", None), ("1.0", None), ("9" * 5000, None)],
)  # fmt: skip
def test_indexes_are_plain_and_in_range(step, index):
    """RFC 6901, section 4: 0, or digits without a leading zero."""
    assert index_in(step, [1, 2, 3]) == index


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        ("/system", ["S"]),
        ("/missing", []),
        ("/system/0", []),
        ("/system/*", []),
        ("/messages/0/content", ["U0"]),
        ("/messages/00/content", []),
        ("/messages/99/content", []),
        ("/messages/\u0660/content", []),
        ("/messages/" + "9" * 5000, []),
        ("/messages/*[role=user]/content", ["U0"]),
        ("/messages/*[role=user|assistant]/content", ["U0", "A1"]),
        ("/messages/0[role=user]/content", ["U0"]),
        ("/messages/1[role=user]/content", []),
        ("/messages/*[role=system]/content/*[type=text]/text", ["S2"]),
        ("/messages/2/content/*", [{"type": "text", "text": "S2"}, {"type": "image"}, "x"]),
        ("/messages/role", []),
        ("/a~1b~0c/0", ["zero"]),
        ("/a~1b~0c/", ["empty"]),
        ("/a~1b~0c/*", ["zero", "star", "empty"]),
        ("/*[0=zero]/0", ["zero"]),
    ],
)
def test_patterns_enter_what_they_name(pattern, values):
    """A segment is a name, an index or *, with a condition on the object it leads to."""
    assert found(pattern) == values


def test_matches_come_with_their_paths():
    """Each place is given as a path with names and indexes."""
    assert dict(match_paths(BODY, "/messages/*[role=system]/content/*[type=text]/text")) == {
        ("messages", 2, "content", 0, "text"): "S2"
    }


@pytest.mark.parametrize("value", [None, 1, True, "text", [], {}, [None], {"messages": None}])
def test_patterns_find_nothing_in_other_shapes(value):
    """A body of another shape is no error."""
    assert found("/messages/*[role=user]/content/*[type=text]/text", value) == []


@pytest.mark.parametrize(
    "pattern",
    ["", "a", "messages/*", "/a[", "/a[]", "/a[x]", "/a[x=]", "/a[=y]", "/a[x=y", "/a[x=y]z",
     "/a[x=y][z=w]", "/*[x=a/b]", "/a[x=[y]]"],
)  # fmt: skip
def test_unreadable_patterns_are_refused_in_one_line(pattern):
    """A pattern with an error is a PathError that quotes it, since people wrote it."""
    with pytest.raises(PathError) as raised:
        parse_pattern(pattern)
    assert len(str(raised.value).splitlines()) == 1
