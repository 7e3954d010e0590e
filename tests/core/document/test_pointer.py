"""Pointers and path patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.pointer import (
    PathError,
    parse_pointer,
    to_pointer,
)
from tests import transcript


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


def test_all_that_is_said():
    transcript.holds("pointer.txt", globals())
