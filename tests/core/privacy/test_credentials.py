"""Credentials inside texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.privacy import credentials as module
from cacheproxy.core.privacy.credentials import hide, hide_text

KEYS = [
    "sk-ant-api03-7f3a9bcc41d0_x-y",
    "sk-or-v1-7f3a9bcc41d07f3a9bcc41d0",
    "sk-proj-A7f3a9bcc41d0",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1_B2" * 10,
    "glpat-" + "a1B2-" * 4,
    "hf_" + "a1B2" * 9,
    "gsk_" + "a1B2" * 12,
    "xoxb-" + "123456-" * 4 + "a",
    "AKIA" + "A1B2" * 4,
    "AIza" + "a1B2_" * 7,
    "eyJhbGciOi1J9.eyJzdWIiOiIx.a1b2c3d4e5f6g7h8i9",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "around", ["{}", "KEY={}", '{{"x": "{}"}}', "Bearer {} ", "a\n{}\n", "\u00e9{}", "({})"]
)
def test_keys_of_known_shapes_are_hidden(key, around):
    """In text, and in the JSON that spells the text, whichever way; the length stays."""
    text = around.format(key)
    for spelled in (text, json.dumps(text), json.dumps(text, ensure_ascii=False)):
        hidden = hide(spelled.encode())
        assert key.encode() not in hidden
        assert b"redacted" in hidden
        assert len(hidden) == len(spelled.encode())
        assert hide(hidden) == hidden
    assert key not in hide_text(text)


@pytest.mark.parametrize(
    "text",
    [
        *("sk-no-key-required", "task-1234567890123456789", "a sk-learn-like-name-of-words"),
        *("disk-a1b2c3d4e5f6a7b8c9d0", "/AKIA" + "A1B2" * 4, "AKIA" + "A1B2" * 9, "sk-a1"),
        *("eyJhbGciOiJIUzI1NiJ9", "ghp_short1", "+sk-ant-api03-7f3a9bcc41d0", "hf_hub_download"),
    ],
)
def test_words_numbers_and_base64_stay(text):
    """They are the conversation itself."""
    data = text.encode()
    assert hide(data) is data
    assert hide_text(text) is text


def test_those_that_are_known_are_hidden_wherever_they_stand():
    """In the middle of a word as well; the longer one first."""
    known = {b"tok7f3a9bcc41d00", b"tok7f3a9bcc41d00-and-more"}
    data = b"xtok7f3a9bcc41d00x tok7f3a9bcc41d00-and-more"
    assert hide(data, known) == b"xredacted-redactex redacted-redacted-redacte"
    assert hide_text("\ud83d tok7f3a9bcc41d00", known) == "\ud83d redacted-redacte"


@pytest.mark.parametrize("shift", range(-3, 3))
def test_they_are_found_across_the_pieces_of_a_long_text(monkeypatch, shift):
    """It is looked through in pieces."""
    monkeypatch.setattr(module, "_PIECE", 50)
    known = b"tok7f3a9bcc41d00"
    for key in (KEYS[0].encode(), known):
        hidden = hide(b" " * (100 + shift) + key + b" " * 100 + key + b" ", {known})
        assert hidden.count(b"redacted-") >= 2
        assert key not in hidden


@given(
    st.lists(st.sampled_from([*KEYS, "sk-", "AKIA", " ", "\\n", "é", '"', "a", "1"]), max_size=8)
)
def test_hiding_twice_changes_nothing(parts):
    """Whatever stands beside whatever, and never the length."""
    data = "".join(parts).encode()
    once = hide(data)
    assert hide(once) == once
    assert len(once) == len(data)


@given(st.binary(max_size=60), st.sets(st.binary(min_size=16, max_size=20), max_size=2))
def test_any_bytes_may_be_looked_at(data, known):
    """A body is what the client sent."""
    assert len(hide(data, known)) == len(data)
