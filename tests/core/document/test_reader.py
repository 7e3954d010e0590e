"""A JSON text that may be none."""

import pytest

from cacheproxy.core.document.reader import parsed


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, "1" * 5_000])
def test_what_is_no_json_that_can_be_read_says_nothing(text):
    assert parsed(text) is None


def test_control_characters_are_text_where_that_is_asked_for():
    assert parsed('"a\tb"') is None
    assert parsed('"a\tb"', strict=False) == "a\tb"
