"""Clients of Messages before a model server of Chat Completions, on real sockets."""

from __future__ import annotations

import json
import socket

import pytest

from cacheproxy.core.http1.ending import CUT
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.translation.translating import Translating
from tests.proxy.harness import CHUNKED, Client, Proxy, Upstream, eventually, free_port, whole

pytestmark = pytest.mark.slow

MESSAGE = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
CHAT_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi"},
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 1,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 7},
    },
}
MESSAGE_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1},
}
EVENTS = [
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1}}\n\n',
    b"data: [DONE]\n\n",
]


TYPE = b"Content-Type: application/json"


def reply(peer, status, value, *fields):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    peer.send(whole(body, TYPE, b"X-Kept: 1", *fields, status=status))


def server_of(path, answer):
    """A server that knows ``path`` alone, and says what is wrong with a body without messages."""

    def script(peer, received):
        target = received.line.split()[1].partition(b"?")[0]
        if not target.endswith(path):
            reply(peer, b"404 Not Found", {"error": {"message": "File Not Found"}})
        elif "messages" not in json.loads(received.body):
            reply(peer, b"400 Bad Request", {"error": {"message": "no messages"}})
        else:
            answer(peer, received)

    return script


chat_server = server_of(b"/chat/completions", lambda peer, _: reply(peer, b"200 OK", CHAT_ANSWER))
messages_server = server_of(b"/messages", lambda peer, _: reply(peer, b"200 OK", MESSAGE_ANSWER))


def stream_of(events, *, end=True):
    """A chat server that streams ``events``, and then ends its body or breaks off."""

    def answer(peer, _):
        peer.send(CHUNKED)
        for event in events:
            peer.chunk(event)
        peer.send(b"0\r\n\r\n") if end else peer.reset()

    return server_of(b"/chat/completions", answer)


def ask(proxy, path, body, *fields):
    with Client(proxy.address) as client:
        return client.ask(path, json.dumps(body).encode(), *fields).answer()


def lines_of(upstream):
    found = []
    while not upstream.requests.empty():
        found.append(upstream.received().line.split()[1].decode())
    return found


@pytest.fixture
def fresh(upstream, tmp_path):
    """A proxy that knows nothing of the upstream yet."""
    with Proxy(tmp_path, "--upstream", upstream.url) as proxy:
        while not upstream.requests.empty():
            upstream.received()
        yield proxy


def test_a_server_of_the_clients_dialect_is_never_asked(fresh, upstream):
    """One request in, one request out."""
    upstream.reset(messages_server)
    for _ in range(2):
        assert json.loads(ask(fresh, "/v1/messages", MESSAGE).body) == MESSAGE_ANSWER
    assert lines_of(upstream) == ["/v1/messages"] * 2


def test_a_server_of_the_other_dialect_is_asked_once(fresh, upstream):
    """When it does not know the client's path; from then on requests are translated at once."""
    upstream.reset(chat_server)
    for _ in range(2):
        answer = ask(fresh, "/v1/messages", MESSAGE)
        assert (answer.status, answer.end) == (200, "whole")
        assert json.loads(answer.body)["type"] == "message"
        assert answer.values(b"x-kept") == [b"1"]
    asked, translated = ["/v1/messages"] * 2, ["/v1/chat/completions"] * 3
    assert lines_of(upstream) == asked + translated


def test_nothing_is_translated_where_the_upstream_is_said_to_speak_messages(upstream, tmp_path):
    """Its own 404 comes down, and it is asked nothing."""
    with Proxy(tmp_path, "--upstream", upstream.url, "--dialect", "anthropic") as proxy:
        lines_of(upstream)
        upstream.reset(chat_server)
        answer = ask(proxy, "/v1/messages", MESSAGE)
        assert (answer.status, b"File Not Found" in answer.body) == (404, True)
        assert lines_of(upstream) == ["/v1/messages"]


MISSING = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}


@pytest.mark.parametrize(
    ("server", "error"),
    [
        (server_of(b"/messages", lambda peer, _: reply(peer, b"404 No", MISSING)), MISSING),
        (server_of(b"/nothing", None), {"error": {"message": "File Not Found"}}),
    ],
    ids=["the path but not the model", "neither path"],
)
def test_what_a_server_says_of_a_path_it_does_not_know_comes_down(fresh, upstream, server, error):
    """Its 404 is the answer."""
    upstream.reset(server)
    answer = ask(fresh, "/v1/messages", MESSAGE)
    assert (answer.status, json.loads(answer.body)) == (404, error)


def test_another_server_may_take_its_place(tmp_path):
    """After it was down it is asked anew."""
    port = free_port()
    first = Upstream(socket.create_server(("127.0.0.1", port)))
    first.reset(chat_server)
    with Proxy(tmp_path, "--upstream", first.url) as proxy:
        assert json.loads(ask(proxy, "/v1/messages", MESSAGE).body)["type"] == "message"
        first.close()
        eventually(lambda: ask(proxy, "/v1/messages", MESSAGE).status == 502)
        second = Upstream(socket.create_server(("127.0.0.1", port)))
        second.reset(messages_server)
        assert json.loads(ask(proxy, "/v1/messages", MESSAGE).body) == MESSAGE_ANSWER
        assert lines_of(second) == ["/v1/messages"]
        second.close()


@pytest.fixture(scope="module")
def openai(_upstream, tmp_path_factory):
    """A proxy that was told what its upstream speaks."""
    folder = tmp_path_factory.mktemp("openai")
    with Proxy(folder, "--upstream", _upstream.url, "--dialect", "openai") as proxy:
        yield proxy


def test_a_stream(openai, upstream):
    """Comes as the client's events, with the usage the server told at the end."""
    upstream.reset(stream_of(EVENTS))
    answer = ask(openai, "/v1/messages", MESSAGE | {"stream": True})
    assert answer.end == "whole"
    assert not answer.values(b"content-length")
    kinds = [line[7:] for line in answer.body.split(b"\n") if line.startswith(b"event: ")]
    assert kinds[0] == b"message_start"
    assert kinds[-2:] == [b"message_delta", b"message_stop"]
    assert b'"text":"hi"' in answer.body.replace(b": ", b":")


@pytest.mark.parametrize("count", range(1, 3))
@pytest.mark.parametrize("end", [True, False])
def test_a_stream_that_breaks_off(openai, upstream, count, end):
    """What came is delivered, and the client sees that it is not all: no message_stop, no end."""
    upstream.reset(stream_of(EVENTS[:count], end=end))
    answer = ask(openai, "/v1/messages", MESSAGE | {"stream": True})
    assert answer.end in ("fin", "rst")
    assert b"message_start" in answer.body
    assert b"message_stop" not in answer.body


@pytest.mark.parametrize(("count", "end"), [(1, "fin"), (2, "fin"), (len(EVENTS), "whole")])
def test_a_stream_that_ends_with_its_connection(openai, upstream, count, end):
    """Of a server of HTTP/1.0: whole if it came to its end, which is logged if it did not."""

    def unframed(peer, _):
        peer.send(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        peer.send(b"".join(EVENTS[:count]))

    upstream.reset(server_of(b"/chat/completions", unframed))
    mark = openai.mark()
    answer = ask(openai, "/v1/messages", MESSAGE | {"stream": True})
    assert answer.end == end
    assert (b"message_stop" in answer.body) == (end == "whole")
    assert (f"UPSTREAM FAILED: {CUT}" in openai.wait_for(" first", mark)) == (end == "fin")


def test_an_error_of_the_server(openai, upstream):
    """In the client's form, with its status and retry-after."""
    error = {"error": {"message": "slow down", "type": "rate_limit"}}
    upstream.reset(lambda peer, _: reply(peer, b"429 Too Many", error, b"Retry-After: 7"))
    answer = ask(openai, "/v1/messages", MESSAGE | {"stream": True})
    assert (answer.status, answer.values(b"retry-after")) == (429, [b"7"])
    assert json.loads(answer.body)["error"]["type"] == "rate_limit_error"


CUT_SHORT = b"HTTP/1.0 200 OK\r\n%s\r\n\r\n%s" % (TYPE, json.dumps(CHAT_ANSWER).encode()[:-9])


@pytest.mark.parametrize(
    ("sent", "stream"),
    [
        *((whole(body, TYPE), False) for body in (b"not json", b"[]", b'{"choices":[]}', b"")),
        (CUT_SHORT, False),
        (whole(json.dumps(CHAT_ANSWER).encode(), TYPE), True),
    ],
    ids=["no JSON", "a list", "no choice", "empty", "cut short", "whole where a stream is wanted"],
)
def test_an_answer_that_makes_no_sense(openai, upstream, sent, stream):
    """502 in the client's form: nothing has gone down yet.

    Some SDKs would take a whole answer for an empty stream.
    """
    upstream.reset(lambda peer, _: peer.send(sent))
    answer = ask(openai, "/v1/messages", MESSAGE | {"stream": stream})
    assert (answer.status, answer.end) == (502, "whole")
    assert json.loads(answer.body)["type"] == "error"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            {"messages": [{"role": "user", "content": [{"type": "nonsense"}]}]},
            "/messages/0/content/0",
        ),
        ({"messages": 7}, "/messages"),
        ({"tools": [{"name": "x"}]}, "/tools/0"),
    ],
)
def test_a_request_that_cannot_be_translated(openai, upstream, change, place):
    """400 in the client's form, naming the place; the log has it as refused."""
    upstream.reset(chat_server)
    mark = openai.mark()
    answer = ask(openai, "/v1/messages", MESSAGE | change)
    assert answer.status == 400
    error = json.loads(answer.body)["error"]
    assert error["type"] == "invalid_request_error"
    assert place in error["message"]
    assert upstream.requests.empty()
    assert f"  400 REFUSED: {place}" in openai.wait_for("client/", mark)


def test_tokens_are_counted_by_the_server_or_estimated(openai, upstream):
    """An estimate says that it is one."""

    def count(peer, received):
        path = received.line.split()[1]
        if path == b"/apply-template":
            reply(peer, b"200 OK", {"prompt": "hello"})
        elif path == b"/tokenize":
            reply(peer, b"200 OK", {"tokens": [1, 2, 3]})
        else:
            reply(peer, b"404 Not Found", {})

    upstream.reset(count)
    path = "/v1/messages/count_tokens"
    assert json.loads(ask(openai, path, MESSAGE).body) == {"input_tokens": 3}
    upstream.reset(chat_server)
    estimated = json.loads(ask(openai, path, MESSAGE).body)
    assert estimated["estimated"] is True
    assert ask(openai, path, {"messages": 7}).status == 400


def test_the_list_of_models(openai, upstream):
    """In the form of the client's API."""
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1}]}
    upstream.reset(lambda peer, _: reply(peer, b"200 OK", listed))
    with Client(openai.address) as client:
        version = b"anthropic-version: 2023-06-01"
        answer = client.ask("/v1/models", None, version, method=b"GET").answer()
        assert json.loads(answer.body)["data"][0]["type"] == "model"
        answer = client.ask("/v1/models", None, method=b"GET").answer()
        assert json.loads(answer.body) == listed


def test_a_client_that_leaves_while_the_server_is_asked(fresh, upstream):
    """Both connections close."""
    closed = []

    def script(peer, received):
        if json.loads(received.body or b"{}"):
            peer.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n")
        closed.append(peer.wait_closed())

    upstream.reset(script)
    with Client(fresh.address) as client:
        client.ask("/v1/messages", json.dumps(MESSAGE).encode())
        upstream.received()
        upstream.received()
    eventually(lambda: closed == [True, True])


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/messages", b'{"messages":[]}', True),
        ("/v1/messages/count_tokens", b'{"messages":[]}', True),
        ("/v1/messages", b"{}", False),
        ("/v1/messages", b"[]", False),
        ("/v1/chat/completions/", b'{"messages":[]}', False),
        ("/apply-template", b'{"messages":[]}', False),
        ("/v1/responses", b'{"messages":[]}', False),
    ],
)
def test_what_is_translated_is_a_prompt_to_be_answered_or_counted(path, body, expected):
    """But no other proxy's question, so that two of them never ask each other."""
    translating = Translating(None, None, "openai")
    assert translating.translates(Request("POST", path, (), body)) is expected
    assert not translating.translates(Request("GET", path, (), body))
