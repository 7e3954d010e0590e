"""Texts in the form in which clients wrap what is not the user's own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.placement.reminder import (
    is_all_text,
    is_wrapped,
    merged,
    says_something,
    text_in,
    wrapped,
    wrapped_blocks,
)

IMAGE = {"type": "image"}


def text(words, kind="text"):
    return {"type": kind, "text": words}


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


def test_blocks_are_wrapped_around_the_texts():
    """What was given stays as it is."""
    given_blocks = [IMAGE, text("a"), IMAGE, text("b", "input_text"), {"type": "text"}]
    kept = json.dumps(given_blocks)
    assert wrapped_blocks(given_blocks) == [
        IMAGE,
        text("<system-reminder>\na"),
        IMAGE,
        text("b\n</system-reminder>", "input_text"),
        {"type": "text"},
    ]
    assert json.dumps(given_blocks) == kept
    assert wrapped_blocks([text("a")]) == [text("<system-reminder>\na\n</system-reminder>")]
    assert wrapped_blocks([IMAGE]) == [IMAGE]
    assert wrapped_blocks(wrapped_blocks(given_blocks)) == wrapped_blocks(given_blocks)


def test_texts_that_meet_become_one():
    """So that it makes no difference whether a text stands alone or in a list."""
    assert merged(["a", "b"]) == "a\n\nb"
    assert merged([[text("a")], "b"]) == merged(["a", [text("b")]]) == [text("a\n\nb")]
    assert merged(["a", [text("b", "input_text"), IMAGE], "c"]) == [
        text("a\n\nb", "input_text"),
        IMAGE,
        text("c", "input_text"),
    ]
    assert merged([[], "a", [IMAGE]]) == [text("a"), IMAGE]


@pytest.mark.parametrize(
    ("content", "says", "plain"),
    [
        ("", False, True),
        (" \n", False, True),
        ("a", True, True),
        ([], False, True),
        ([text(" ")], False, True),
        ([text(""), text("a")], True, True),
        ([IMAGE], True, False),
        ([{"type": "text", "text": 1}], True, False),
        ([None], True, False),
    ],
)
def test_what_a_model_would_read(content, says, plain):
    """Text, or anything that is not text."""
    assert says_something(content) is says
    assert is_all_text(content) is plain


def test_all_text_of_a_message():
    """One block a line."""
    assert text_in("a") == "a"
    assert text_in([text("a"), IMAGE, text("b")]) == "a\nb"
