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


DEEPSEEK = "<\uff5cbegin▁of▁sentence\uff5c>"
"""A mark of a byte-level tokenizer that has SentencePiece's space in its name."""


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (VLLM, "<|im_start|>system\ncacheproxy-head\nünï 22 Nov<|im_end|>\n"),
        (["<s>", "▁a", "▁head", "<0x0A>", "▁gr", "<0xC3>", "<0xBC>", "n"], "<s> a head\n grün"),
        ([DEEPSEEK, "a", "Ġb", "Ġc", "ĊĊ", "d"], f"{DEEPSEEK}a b c\n\nd"),
    ],
    ids=["byte level", "SentencePiece", "DeepSeek's"],
)
def test_tokens_become_text(pieces, text):
    """Spaces, line ends, letters beyond ASCII and bytes without a token come back."""
    assert text_of({"token_strs": pieces}) == text


@given(st.lists(st.text()))
def test_any_tokens_make_a_text(pieces):
    """Nothing of it raises."""
    assert isinstance(text_of({"token_strs": pieces}), str)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b'{"prompt": 1}', b"null"])
def test_a_body_that_is_no_answer(body):
    """It tells nothing, and raises nothing; we asked for a dozen words, not for megabytes."""
    assert read(body) is None
    large = json.dumps({"prompt": "x" * (4 << 20)}).encode()
    assert read(large) is None
    assert read(large, len(large)) is not None
