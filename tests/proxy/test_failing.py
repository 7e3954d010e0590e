"""The upstream fails: the client is told, and never takes a part for the whole."""

import json

import pytest

from .harness import CHUNKED, LAST, TIMEOUT, Client, Proxy, Says, chunk, head, whole

pytestmark = pytest.mark.slow

EVENT = b"data: {}\n\n"

NO_HEAD = {
    "nothing": b"",
    "an interim response": head(status=b"100 Continue"),
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n\r\n",
    "a length of letters": head(b"Content-Length: five"),
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000,
}


@pytest.mark.parametrize("data", NO_HEAD.values(), ids=NO_HEAD)
def test_before_the_head_the_client_gets_502(connect, respond, upstream, data):
    """With one sentence that names the upstream; a request is never sent twice.

    Every cut of a head is tested in test_cuts.py, as is every cut of a body.
    """
    respond(data)
    for method in (b"POST", b"GET"):
        client = connect()
        for _ in range(2):  # the connection lives on
            answer = client.ask(method=method).answer()
            assert (answer.status, answer.end) == (502, "whole")
            assert answer.values(b"content-type") == [b"application/json"]
            body = json.loads(answer.body)
            message = body["error"].pop("message")
            assert body == {"type": "error", "error": {"type": "api_error"}}
            assert upstream.url in message
            assert upstream.received()
            assert upstream.requests.empty()


def test_a_reset_is_no_end_of_a_body_without_length(connect, serve):
    serve(Says(head() + b"x" * 100))
    answer = connect().ask().answer()
    assert (answer.body, answer.end) == (b"x" * 100, "whole")
    serve(Says(head() + b"x" * 100, then="rst"))
    answer = connect().ask().answer()
    assert answer.end in ("fin", "rst")
    answer = connect().ask(version=b"HTTP/1.0").answer()
    assert answer.end == "rst"


def test_broken_chunks_break_off_the_answer(connect, serve, proxy):
    """Even where the upstream keeps its connection open; we close that, too. The log says so."""
    serve(script := Says(CHUNKED + b"a\r\n" + EVENT + b"\r\n", b"xyz\r\n", waits=True))
    mark = proxy.mark()
    answer = connect().ask("/v1/messages", b'{"model":"m"}').answer()
    assert (answer.status, answer.body, answer.framed) == (200, EVENT, True)
    assert answer.end in ("fin", "rst")
    assert script.closed.wait(TIMEOUT)
    assert "chunk framing" in proxy.wait_for("UPSTREAM FAILED", mark)


ASKED = b'{"model": "m", "max_tokens": %d, "messages": [{"role": "user", "content": "hi"}]}'
OVERLOADED = b'data: {"error": {"message": "Overloaded now", "code": 503}}\n\n'
SILENT = (
    b'{"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]}'
)
JSON, HTML = b"Content-Type: application/json", b"Content-Type: text/html"


@pytest.mark.parametrize(
    ("said", "tokens", "told"),
    [
        (CHUNKED + chunk(OVERLOADED) + LAST, 100, "UPSTREAM FAILED: Overloaded now"),
        (whole(OVERLOADED[6:], JSON), 100, "UPSTREAM FAILED: Overloaded now"),
        (whole(b"<html><p>Welcome!</p></html>", HTML), 100, "UPSTREAM FAILED: it answered with"),
        (whole(SILENT, JSON), 100, "EMPTY: the answer says nothing"),
        (whole(SILENT, JSON), 1, "cold"),
    ],
    ids=["an event", "a body", "a page", "nothing", "no room for a word"],
)
def test_a_failure_inside_a_200_is_told(said, tokens, told, *, connect, respond, proxy):
    """The client gets it as it came; the log has the server's words."""
    respond(said)
    mark = proxy.mark()
    answer = connect().ask("/v1/chat/completions", ASKED % tokens).answer()
    assert (answer.status, answer.end) == (200, "whole")
    line = proxy.wait_for("#1", mark)
    assert told in line
    assert ("EMPTY" in line) is ("EMPTY" in told)


FAULT = """
from cacheproxy import hookimpl
from cacheproxy.core.conversation.usage_reader import UsageReader

def feed(*_):
    raise ValueError("kanarienvogel")

UsageReader.feed = feed

@hookimpl
def cacheproxy_exchange_finished(exchanges):
    pass
"""


def test_a_fault_of_ours_amid_an_answer_is_in_the_log_without_its_text(upstream, respond, tmp_path):
    """Its traceback is; what it says may quote the prompt."""
    respond(CHUNKED + b"2\r\n{}\r\n")
    (tmp_path / "fault.py").write_text(FAULT)
    plugin = ("--plugin", str(tmp_path / "fault.py"))
    with Proxy(tmp_path, "--upstream", upstream.url, *plugin) as proxy:
        answer = proxy.ask(body=b'{"messages":[]}')
        assert answer.end in ("fin", "rst")
        assert "FAILED: an internal error; see the" in proxy.wait_for("UPSTREAM FAILED")
        assert "#1: an exchange failed" in proxy.wait_for("an exchange failed")
        assert "fault.py" in proxy.wait_for("fault.py:")
        assert "kanarienvogel" not in proxy.output


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/messages?beta=true", {"type": "error", "error": {"type": "api_error"}}),
        ("/", {"error": {"type": "server_error", "param": None, "code": 502}}),
        ("/api/chat", {}),
    ],
)
def test_an_upstream_that_is_down_is_502_in_the_clients_dialect(orphan, path, shape):
    """The sentence says what to look at; core/dialects has all shapes."""
    answer = orphan.ask(path)
    assert (answer.status, answer.end) == (502, "whole")
    body = json.loads(answer.body)
    said = body["error"].pop("message") if shape else body.pop("error")
    assert body == shape
    assert "check that the model server is running there" in said
    with Client(orphan.address) as client:
        assert client.ask(path, method=b"HEAD").answer(method=b"HEAD").status == 502


def test_a_failed_turn_is_one_line(orphan):
    mark = orphan.mark()
    orphan.ask(body=b'{"messages":[]}')
    assert "UPSTREAM FAILED: cannot connect to" in orphan.wait_for("UPSTREAM FAILED", mark)
    orphan.ask("/v1/models", None, method=b"GET")
    assert "GET /v1/models  502" in orphan.wait_for("/v1/models", mark)
