"""The text that a server has rendered, from a text or from tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.template.rendered import read, text_of

VLLM = ["<|im_start|>", "s", "ystem", "Ċ", "cache", "pro", "xy", "-", "head", "Ċ", "Ã", "¼", "n"]
VLLM += ["Ã", "¯", "Ġ", "2", "2", "ĠNo", "v", "<|im_end|>", "Ċ"]
"""As vLLM 0.32 answers to ``cacheproxy-head\\nünï 22 Nov``."""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"prompt": "a"}, "a"),
        ({"count": 2, "tokens": [1, 2], "token_strs": ["a", "b"]}, "ab"),
        ({"tokens": [1]}, None),
        ({"token_strs": ["a", None]}, None),
        ({"token_strs": None, "prompt": 1}, None),
        ([], None),
        ("prompt", None),
        (None, None),
    ],
)
def test_the_text_of_either_server(answer, text):
    """llama-server gives a text, vLLM tokens."""
    assert text_of(answer) == text


def test_the_tokens_of_a_byte_level_tokenizer():
    """As a real vLLM spells them: a space, a line's end and letters beyond ASCII come back."""
    assert (
        text_of({"token_strs": VLLM})
        == "<|im_start|>system\ncacheproxy-head\nünï 22 Nov<|im_end|>\n"
    )


def test_the_tokens_of_sentencepiece():
    """Its spaces, and bytes that have no token of their own."""
    pieces = ["<s>", "▁a", "▁head", "<0x0A>", "▁gr", "<0xC3>", "<0xBC>", "n"]
    assert text_of({"token_strs": pieces}) == "<s> a head\n grün"


def test_marks_with_the_other_ones_space_in_their_names():
    """DeepSeek's tokenizer is byte-level."""
    mark = "<\uff5cbegin▁of▁sentence\uff5c>"
    pieces = [mark, "a", "Ġb", "Ġc", "ĊĊ", "d"]
    assert text_of({"token_strs": pieces}) == f"{mark}a b c\n\nd"


@given(st.lists(st.text()))
def test_any_tokens_make_a_text(pieces):
    """Nothing of it raises."""
    assert isinstance(text_of({"token_strs": pieces}), str)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b'{"prompt": 1}', b"null"])
def test_a_body_that_is_no_answer(body):
    """It tells nothing, and raises nothing."""
    assert read(body) is None


def test_a_page_of_megabytes_is_not_read():
    """We asked for a dozen words."""
    large = json.dumps({"prompt": "x" * (4 << 20)}).encode()
    assert read(large) is None
    assert read(large, len(large)) is not None
