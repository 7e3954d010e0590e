"""A stream that begins before its upstream has answered, and what comes of that."""

import gzip
import json
import threading
import time

import pytest

from tests.proxy.exchange.test_holding import (
    ANSWER,
    CHAT,
    EVENTS,
    LLAMA,
    PROGRESS,
    TYPE,
    WHOLE,
    Prefill,
    asks,
    event,
    prompt,
    session,
    word,
)
from tests.proxy.harness import CHUNKED, LAST, chunk, head, whole

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
SOON = ("--head-after", "0.2", "--ping-after", "0.2")
PACKED = gzip.compress(EVENTS)
STREAM = b"Content-Type: text/event-stream"
TOO_LONG = json.dumps(
    {
        "error": {
            "message": "request (90000 tokens) exceeds the available context size (32768 tokens)",
            "type": "exceed_context_size_error",
            "code": 400,
        }
    }
).encode()
REFUSED = b'{"error":{"message":"no such tool","type":"invalid_request_error","code":400}}'
CHUNKED_AS = head(b"Transfer-Encoding: chunked")
ASKED = {
    CHAT: prompt(),
    MESSAGES: prompt(max_tokens=9),
    RESPONSES: json.dumps({"model": "m", "input": "Hi", "stream": True}).encode(),
}


def begun(proxy, path=CHAT, body=None):
    """The pieces of a stream that has begun, which raise if it breaks off, and the first one."""
    client = asks(proxy, body or ASKED[path], path=path)
    answer = client.begin()
    assert answer.status == 200
    assert answer.values(b"content-type") == [b"text/event-stream"]
    pieces = client.pieces(answer)
    return pieces, next(pieces)


@pytest.mark.parametrize(
    "then",
    [
        CHUNKED + chunk(EVENTS) + LAST,
        whole(EVENTS, STREAM),
        whole(PACKED, STREAM, b"Content-Encoding: gzip"),
    ],
    ids=["chunked", "with a length", "packed"],
)
def test_what_comes_afterwards_is_the_answer(start, then):
    """Between signs of life, byte for byte; unpacked, since the head named no coding."""
    server = Prefill(b"", then)
    proxy = start(server, *SOON)
    pieces, sign = begun(proxy)
    assert next(pieces) == sign
    server.go_on.set()
    got = b"".join(pieces)
    assert got.replace(sign, b"") == EVENTS
    assert json.loads(sign.removeprefix(b"data:"))["choices"][0]["delta"] == {}
    assert server.prompts == 1
    assert "900 tok" in proxy.wait_for("client/one")


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_a_late_refusal_is_an_event_and_each_retry_gets_its_status(start, path):
    """The server read the prompt for it once."""
    server = Prefill(b"", whole(REFUSED, TYPE, status=b"400 Bad Request"))
    proxy = start(server, *SOON)
    pieces, _ = begun(proxy, path)
    server.go_on.set()
    got = b"".join(pieces)
    assert b"no such tool" in got
    assert {CHAT: b'"invalid_request_error"', MESSAGES: b"event: error"}.get(
        path, b'"response.failed"'
    ) in got
    assert "400" in proxy.wait_for("client/one")
    for stream in (True, False):
        body = json.loads(ASKED[path]) | {"stream": stream}
        retry = asks(proxy, json.dumps(body).encode(), path=path).answer()
        assert (retry.status, retry.body) == (400, REFUSED)
        assert server.prompts == 1


@pytest.mark.parametrize(("path", "code"), [
    (CHAT, b'"context_length_exceeded"'), (MESSAGES, b"prompt is too long"),
    (RESPONSES, b'"context_length_exceeded"')])  # fmt: skip
def test_a_prompt_that_was_too_long_is_told_so(start, path, code):
    server = Prefill(b"", whole(TOO_LONG, TYPE, status=b"400 Bad Request"))
    proxy = start(server, *SOON)
    pieces, _ = begun(proxy, path)
    server.go_on.set()
    got = b"".join(pieces)
    assert b"90000" in got
    assert code in got
    for stream in (True, False):
        body = json.loads(ASKED[path]) | {"stream": stream}
        retry = asks(proxy, json.dumps(body).encode(), path=path).answer()
        # Codex takes no error status for it, only the event.
        assert retry.status == (200 if path == RESPONSES and stream else 400)
        assert code in retry.body
        assert b"request (90000 tokens) exceeds" in retry.body


@pytest.mark.parametrize(
    "then",
    [
        CHUNKED_AS + chunk(EVENTS) + LAST,
        head(b"Content-Type: text/plain", b"Transfer-Encoding: chunked") + chunk(EVENTS) + LAST,
        whole(EVENTS, STREAM, status=b"202 Accepted"),
        whole(PACKED, b"Content-Encoding: gzip"),
        whole(json.dumps(WHOLE).encode(), status=b"201 Created"),
        whole(json.dumps(WHOLE).encode(), TYPE),
    ],
    ids=["none", "another", "another status", "packed, none", "whole, none", "whole"],
)
def test_an_answer_is_one_whatever_its_label(start, then):
    server = Prefill(b"", then)
    proxy = start(server, *SOON)
    pieces, _ = begun(proxy)
    server.go_on.set()
    got = b"".join(pieces)
    assert b"lo" in got
    assert got.endswith(b"data: [DONE]\n\n")
    assert b"error" not in got


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (whole(REFUSED, TYPE), b"no such tool"),
        (whole(b"", STREAM), b"ended before it was complete"),
        (head(status=b"204 No Content"), b"ended before it was complete"),
        (CHUNKED + LAST, b"ended before it was complete"),
        (CHUNKED + chunk(b": wait\n\n"), b"upstream"),
        (CHUNKED + chunk(word("Hel")) + LAST, None),
        (CHUNKED + chunk(word("Hel")), None),
    ],
    ids=["an error", "nothing", "no content", "no chunk", "a comment", "no end", "cut"],
)
def test_nothing_ends_well_that_has_not_come_to_its_end(start, then, said):
    """It is told before the answer has begun; then it breaks off."""
    server = Prefill(b"", then)
    proxy = start(server, *SOON)
    pieces, _ = begun(proxy)
    server.go_on.set()
    if said is None:
        with pytest.raises(EOFError):
            list(pieces)
    else:
        assert said in b"".join(pieces)


def test_a_client_that_reads_an_errors_message_finds_there_that_the_prompt_was_too_long(start):
    """On it opencode compacts; on any other error it ends. The words stay in it."""
    server = Prefill(b"", whole(TOO_LONG, TYPE, status=b"400 Bad Request"))
    proxy = start(server, *SOON, CACHEPROXY_BLOCK="")
    client = asks(proxy, None, session(), b"User-Agent: opencode/1.18.33")
    pieces = client.pieces(client.begin())
    next(pieces)
    server.go_on.set()
    (*_, last) = pieces
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["code"] == "context_length_exceeded"
    message = json.loads(error["message"])
    assert (message["type"], message["error"]["code"]) == ("error", "context_length_exceeded")
    assert "90000" in message["error"]["message"]


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (whole(b'{"error":"loading"}', TYPE, status=b"503 Busy"), b"loading"),
        (whole(b"<p>Hi</p>", b"Content-Type: text/html"), b"did not answer with a stream"),
        (head(b"Location: /", b"Content-Length: 0", status=b"302 Found"), b"status 302"),
        (whole(b"x", STREAM, b"Content-Encoding: br"), b"cannot be undone"),
        (b"nonsense\r\n\r\n", b"upstream"),
        (b"", b"upstream"),
    ],
    ids=["busy", "a page", "a redirect", "Brotli", "nonsense", "nothing"],
)
def test_what_goes_wrong_afterwards_is_an_error_of_the_dialect(start, then, said):
    """A retry of what may be another time goes to the server."""
    server = Prefill(b"", then)
    proxy = start(server, *SOON)
    pieces, _ = begun(proxy)
    server.go_on.set()
    got = b"".join(pieces)
    assert b'{"error"' in got
    assert said in got
    server.then = CHUNKED + chunk(EVENTS) + LAST
    assert asks(proxy).answer().body == EVENTS
    assert server.prompts == 2


@pytest.mark.parametrize(
    ("body", "settings", "more"),
    [
        (prompt(stream=False), SOON, {}),
        (prompt(), ("--head-after", "0"), {}),
        (prompt(), SOON, {"CACHEPROXY_BLOCK": ""}),
    ],
    ids=["not streaming", "switched off", "Codex"],
)
def test_who_waits_gets_the_upstreams_head(start, body, settings, more):
    server = Prefill(b"", whole(TOO_LONG, TYPE, status=b"400 Bad Request"))
    proxy = start(server, *settings, **more)
    fields = (b"X-Session-Id: one", *((b"User-Agent: codex_exec/1",) if more else ()))
    client = asks(proxy, body, *fields)
    time.sleep(0.6)
    assert client.peek() == b""
    server.go_on.set()
    assert client.answer().status == 400


def test_a_client_that_leaves_is_held_all_the_same(start):
    server = Prefill(b"", CHUNKED + chunk(EVENTS) + LAST)
    proxy = start(server, *SOON)
    client = asks(proxy)
    client.begin()
    client.close()
    proxy.wait_for("held for a retry")
    pieces, sign = begun(proxy)
    server.go_on.set()
    assert b"".join(pieces).replace(sign, b"") == EVENTS
    assert server.prompts == 1


def test_a_translated_stream_begins_early(start):
    """Its late error is Anthropic's, with the words on which Claude Code compacts."""
    said = threading.Event()

    def script(peer, received):
        if received.line.startswith(b"POST /v1/chat/completions") and b"Hi" in received.body:
            said.wait()
            peer.send(whole(TOO_LONG, TYPE, status=b"400 Bad Request"))
        else:
            peer.send(whole(b"{}", status=b"404 Not Found"))

    proxy = start(script, *SOON, "--dialect", "openai")
    pieces, sign = begun(proxy, MESSAGES)
    assert sign.startswith(b"event: ping\n")
    said.set()
    got = b"".join(pieces)
    assert b"prompt is too long: 90000 tokens > 32768 maximum" in got


def test_without_a_limit_of_silence_an_answer_may_still_be_silent(start):
    """For longer than its head might have taken."""
    server = Prefill(CHUNKED, ANSWER)
    proxy = start(server, "--upstream-silence", "0", "--head-after", "0.3")
    client = asks(proxy)
    time.sleep(1)
    server.go_on.set()
    answer = client.answer()
    assert (answer.end, answer.body) == ("whole", EVENTS)


def test_a_silence_that_ends_before_keeps_its_status(start):
    proxy = start(Prefill(b""), "--upstream-silence", "0.3", "--head-after", "0.6")
    assert asks(proxy).answer().status == 504


def test_interim_responses_are_no_head_and_no_silence(start):
    """A server that says 102 each second: the client has its head in time, and the answer."""

    def script(peer, received):
        if not received.values(b"x-session-id"):
            peer.send(whole(b"{}", status=b"404 Not Found"))
            return
        for _ in range(8):
            peer.send(head(status=b"102 Processing"))
            time.sleep(0.25)
        peer.send(CHUNKED + ANSWER)

    proxy = start(script, "--head-after", "0.6", "--upstream-silence", "1")
    pieces, sign = begun(proxy)
    assert b"".join(pieces).replace(sign, b"") == EVENTS


def test_a_head_does_not_wait_for_what_is_left_out(start):
    """It came together with an event that we had asked for."""
    told = chunk(event(choices=[{"index": 0, "delta": {"content": None}}], **PROGRESS))
    server = Prefill(CHUNKED + told, ANSWER, pages=LLAMA)
    proxy = start(server, CACHEPROXY_POLL="1")
    client = asks(proxy)
    assert server.begun.acquire(timeout=9)
    client.sock.settimeout(9)  # before the first sign of life
    answer = client.begin()
    server.go_on.set()
    assert b"".join(client.pieces(answer)).endswith(EVENTS)  # it may not know the server yet
