"""The upstream says nothing: in the end the client is told, and never takes a part for all."""

import json

import pytest

from tests.proxy.conftest import proxy_with
from tests.proxy.harness import CHUNKED, TIMEOUT, Says

BODY = b'{"model":"m","messages":[]}'


# It waits a second for a word from its upstream, and lets its clients know.
impatient = proxy_with(
    *("--upstream-silence", "1", "--ping-after", "0.2"),
    asks=("/v1/messages", "/v1/chat/completions"),
)


@pytest.fixture
def proxy(impatient, upstream):
    return impatient


@pytest.fixture
def asked(connect, serve):
    """Ask, of an upstream that says ``data`` and then nothing; it must be closed."""

    def asked(data, path, **more):
        serve(script := Says(data, waits=True))
        answer = connect().ask(path, BODY, **more).answer()
        assert script.closed.wait(TIMEOUT)
        return answer

    return asked


def test_before_the_head_the_client_gets_504(asked, upstream):
    """In its own dialect; it is asked only once, and no ping goes down before."""
    messages = asked(b"", "/v1/messages")
    assert upstream.requests.qsize() == 1
    chat, ollama = (asked(b"", path) for path in ("/v1/chat/completions", "/api/chat"))
    error = json.loads(messages.body)["error"]
    assert error["type"] == "timeout_error"
    assert error["message"] == (
        "cacheproxy: the upstream sent nothing for 1 s; allow more with --upstream-silence "
        f"(0 = no limit) ({upstream.url})"
    )
    assert "--upstream-silence" in json.loads(chat.body)["error"]["message"]
    assert "--upstream-silence" in json.loads(ollama.body)["error"]
    assert [(one.status, one.end) for one in (messages, chat, ollama)] == [(504, "whole")] * 3


def test_after_the_head_the_answer_breaks_off(asked, proxy):
    """Without a proper end; our own pings do not count as a word from the upstream."""
    mark = proxy.mark()
    answer = asked(CHUNKED, "/v1/chat/completions")
    assert (answer.status, answer.framed) == (200, True)
    assert answer.end in ("fin", "rst")
    line = proxy.wait_for("UPSTREAM FAILED", mark)
    assert "UPSTREAM FAILED: the upstream sent nothing for 1 s" in line
    answer = asked(CHUNKED, "/v1/messages", version=b"HTTP/1.0")
    assert answer.end == "rst"  # it has no chunks to tell it
