"""One request and its answer, and each way it goes wrong."""

import socket

import pytest

from cacheproxy.replay.errors import ReplayError
from cacheproxy.replay.wire import ask, send

from .standin import NOT_REUSED, answering


def post(url):
    return send(url, "/v1/chat/completions?x=1", {"Content-Type": "application/json"}, b"{}", "m")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_good_answer_has_usage_text_and_times():
    with answering(NOT_REUSED) as url:
        answer = post(url)
    assert (answer.status, answer.error, answer.text) == (200, None, "hi")
    assert (answer.usage.prompt, answer.usage.reused) == (100, None)
    assert 0 < answer.first <= answer.seconds


def test_an_answer_that_is_not_200_is_a_line_without_the_query():
    with answering({"error": {"message": "no such model \x1b[1m"}}, status=404) as url:
        answer = post(url)
    assert (answer.status, answer.first) == (404, None)
    assert answer.error.startswith(f"{url}/v1/chat/completions answered 404 (no such model [1m): ")
    assert "--model" in answer.error


def test_an_answer_that_breaks_off_is_an_error_and_not_short():
    with answering(NOT_REUSED, cut=True) as url:
        answer = post(url)
    assert answer.status == 0
    assert "broke off" in answer.error


def test_nobody_there():
    with pytest.raises(ReplayError, match="--against"):
        post(free_port())


def test_questions_never_fail():
    assert ask(free_port(), "/props") is None
    with answering(NOT_REUSED) as url:
        assert ask(url, "/props") is None
        assert ask(url, "/tokenize", {}) == NOT_REUSED
