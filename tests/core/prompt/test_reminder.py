"""Texts in the form in which clients wrap what is not the user's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.prompt.reminder import is_wrapped, merged, wrapped, wrapped_blocks
from tests.core.late import text

IMAGE = {"type": "image"}


@given(st.text())
def test_wrapping_twice_is_wrapping_once(words):
    """And the words stand in it."""
    once = wrapped(words)
    assert wrapped(once) == once
    assert words in once
    assert is_wrapped(once, once)


@pytest.mark.parametrize(
    "words",
    [
        "<system-reminder>",
        "a <system-reminder>\nb\n</system-reminder>",
        "<system-reminder>\nb\n</system-reminder> a",
        "<System-Reminder>a</System-Reminder>",
        "</system-reminder><system-reminder>",
    ],
)
def test_what_only_quotes_the_mark_is_wrapped(words):
    """It begins with the one and ends with the other, or it is not in it."""
    assert wrapped(words) == f"<system-reminder>\n{words}\n</system-reminder>"


def test_blocks_are_wrapped_once_and_texts_become_one():
    once = wrapped_blocks([IMAGE, text("a"), text("b")])
    assert wrapped_blocks(once) == once != [IMAGE, text("a"), text("b")]
    assert wrapped_blocks([IMAGE]) == [IMAGE]
    assert merged(["a", "b"]) == "a\n\nb"
