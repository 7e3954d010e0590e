"""Counting tokens: the steps, and the estimate. The real server: tests/llama."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.testing import request
from cacheproxy.translate.counting import count, estimate, template_body, tokenize_body
from cacheproxy.translate.reading import TranslationError

ENGLISH = "The quick brown fox jumps over the lazy dog. "
BODY = {"messages": [{"role": "user", "content": ENGLISH * 40}], "max_tokens": 4}
IMAGE = {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}


def estimated(**body):
    return json.loads(estimate(request(BODY | body)))


def test_the_steps():
    """Each makes the next one's body; the count is the client's answer."""
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    body = json.dumps(BODY | {"system": "s", "tools": tools, "stream": True}).encode()
    asked = json.loads(template_body(request(body), Spellings()))
    assert list(asked) == ["messages", "tools"]
    assert asked["messages"][0] == {"role": "system", "content": "s"}
    tokenize = json.loads(tokenize_body(b'{"prompt": "<s>hi"}'))
    assert tokenize == {"content": "<s>hi", "add_special": True, "parse_special": True}
    assert count(b'{"tokens": [1, 2, 3]}') == b'{"input_tokens":3}'


@pytest.mark.parametrize("step", [tokenize_body, count])
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"prompt": 1, "tokens": 1}'])
def test_an_answer_that_cannot_be_read(step, body):
    with pytest.raises(TranslationError):
        step(body)


def test_an_estimate_says_that_it_is_one():
    """Ten words and a full stop are about ten tokens; a picture has a fixed price."""
    plain = estimated()
    assert plain["estimated"] is True
    assert 0.8 * 400 < plain["input_tokens"] < 1.25 * 400
    with_image = [{"role": "user", "content": [{"type": "image", "source": IMAGE}]}]
    assert 1000 < estimated(messages=with_image)["input_tokens"] < 2000
    assert estimated(system="more")["input_tokens"] > plain["input_tokens"]
    assert estimated(messages=[])["input_tokens"] >= 1


def test_other_scripts_are_denser():
    """More tokens for as many characters."""
    greek = [{"role": "user", "content": "αβγδε ζηθικ. " * 100}]
    latin = [{"role": "user", "content": "abcde fghij. " * 100}]
    assert estimated(messages=greek)["input_tokens"] > estimated(messages=latin)["input_tokens"]
