"""Errors of a Messages server, for a chat client."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("openai")

from hypothesis import given
from hypothesis import strategies as st

from tests.translate.common.values import JSON

from .events import ERROR, exchange

OVERFLOW = "context_length_exceeded"


def error(status, body):
    """(status, error object) for the client; ``body``: bytes, or a value."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = exchange().answer(status, sent)
    value = json.loads(answer.body)
    assert set(value) == {"error"}
    ERROR.validate_python(value["error"], strict=True)
    return answer.status, value["error"]


def anthropic(kind, message="boom"):
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


@pytest.mark.parametrize(
    ("status", "sent", "kind", "code"),
    [
        (400, 400, "invalid_request_error", None),
        (401, 401, "invalid_request_error", "invalid_api_key"),
        (402, 402, "insufficient_quota", "insufficient_quota"),
        (403, 403, "invalid_request_error", "permission_denied"),
        (404, 404, "invalid_request_error", "not_found"),
        (413, 413, "invalid_request_error", "request_too_large"),
        (418, 418, "invalid_request_error", None),
        (429, 429, "rate_limit_error", "rate_limit_exceeded"),
        (500, 500, "server_error", None),
        (503, 503, "server_error", "server_overloaded"),
        (504, 504, "server_error", "timeout"),
        (529, 503, "server_error", "server_overloaded"),
        (302, 302, "invalid_request_error", None),
    ],
)
def test_status(status, sent, kind, code):
    """It decides type and code, whatever the server called it; 529 is Anthropic's alone."""
    said = {"message": "boom", "type": kind, "param": None, "code": code}
    assert error(status, anthropic("whatever")) == (sent, said)


@pytest.mark.parametrize(
    ("kind", "status"),
    [("overloaded_error", 503), ("rate_limit_error", 429), ("api_error", 500), ("new", 500)],
)
def test_an_error_that_came_as_200(kind, status):
    """Its type decides."""
    assert error(200, anthropic(kind))[0] == status
    assert error(200, {"error": {"message": "boom", "type": kind}})[0] == status


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("prompt is too long: 208310 tokens > 200000 maximum", (208310, 200000)),
        (
            "request (9018 tokens) exceeds the available context size (8192 tokens), try it",
            (9018, 8192),
        ),
    ],
)
def test_a_prompt_that_does_not_fit(message, numbers):
    """In OpenAI's words and with its code: clients compact the conversation on it."""
    status, said = error(400, anthropic("invalid_request_error", message))
    assert (status, said["code"]) == (400, "context_length_exceeded")
    prompt, limit = numbers
    assert f"maximum context length is {limit} tokens" in said["message"]
    assert f"resulted in {prompt} tokens" in said["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>"),
        (b"", "the server answered with status 502"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 99_999, "x" * 8192),
        (b"[" * 99_999, "[" * 8192),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body"]}]}, '[{"loc": ["body"]}]'),
        ({"error": "boom"}, "boom"),
        ({"error": {"message": "x" * 9_999}}, "x" * 8192),
        ("boom", "boom"),
        (7, "the server answered with status 502"),
        ({"error": {"message": "\ud83d"}}, "\ud83d"),
    ],
)
def test_the_server_s_words_are_not_lost(body, message):
    """Wherever they stand, up to a bound."""
    assert error(502, body)[1]["message"] == message


@pytest.mark.parametrize(
    ("status", "kind", "message", "code"),
    [
        (400, "x", "input length and `max_tokens` exceed context limit: 9 + 8 > 16", OVERFLOW),
        (413, "x", "Prompt is too long", OVERFLOW),
        (500, "x", "This model's maximum context length is 4096 tokens", OVERFLOW),
        (400, "exceed_context_size_error", "x", OVERFLOW),  # llama.cpp's
        (429, "x", "rate limit for prompts of a context length above 2", "rate_limit_exceeded"),
    ],
)
def test_a_prompt_that_does_not_fit_in_other_words(status, kind, message, code):
    """The words stay, the code is the same; too many requests are no long prompt."""
    sent, said = error(status, anthropic(kind, message))
    assert sent == (400 if code == OVERFLOW else status)
    assert (said["message"], said["code"]) == (message, code)


@given(st.sampled_from([200, 301, 400, 429, 500, 529]), JSON)
def test_any_error_is_said(status, value):
    """Whatever it looks like."""
    said = error(status, {"type": "error", "error": value})[1]
    assert said["message"]
