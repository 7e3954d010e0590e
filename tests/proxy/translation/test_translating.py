"""Clients of one API before servers that speak the other alone, on real sockets."""

import json
import socket
from contextlib import ExitStack, contextmanager

import openai
import pytest

from cacheproxy.core.dialects.stream import CUT
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.translation.translating import Translating
from tests.proxy.conftest import proxy_with
from tests.proxy.harness import (
    CHUNKED,
    Client,
    Proxy,
    Upstream,
    eventually,
    free_port,
    sound_upstream,
    whole,
)

pytestmark = pytest.mark.slow

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
MESSAGE = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
_SAID = {"role": "assistant", "content": "hi"}
ANSWERS = {
    CHAT: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": _SAID, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    },
    MESSAGES: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1},
    },
}
EVENTS = [
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1}}\n\n',
    b"data: [DONE]\n\n",
]
TYPE = b"Content-Type: application/json"
NOT_FOUND = b"404 Not Found"


def path_of(received):
    return received.line.split()[1].decode()


def error(message):
    return {"error": {"message": message}}


def reply(peer, value, status=b"200 OK", *fields):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    peer.send(whole(body, TYPE, b"X-Kept: 1", *fields, status=status))


def serving(*paths, answer=None):
    """A server of ``paths`` alone, and its health; ``answer``: to prompts, by their path."""

    def script(peer, received):
        path = path_of(received)
        if path == "/health":
            reply(peer, {"status": "ok"})
        elif not received.line.startswith(b"POST") or path not in paths:
            reply(peer, error("File Not Found"), NOT_FOUND)
        elif "messages" not in json.loads(received.body):
            reply(peer, error("no messages"), b"400 Bad Request")
        elif answer is None:
            reply(peer, ANSWERS[path])
        else:
            answer(peer, received)

    return script


def says(data):
    return lambda peer, _: peer.send(data)


def stream_of(events, *, end=True):
    """A chat server that streams ``events``, and then ends its body or breaks off."""

    def answer(peer, _):
        peer.send(CHUNKED)
        for event in events:
            peer.chunk(event)
        peer.send(b"0\r\n\r\n") if end else peer.reset()

    return serving(CHAT, answer=answer)


def ask(proxy, path, body=MESSAGE, *fields):
    return proxy.ask(path, json.dumps(body).encode(), *fields)


def asked(upstream):
    """The path of each POST since the last time, with a star behind that of a prompt."""
    found = []
    while not upstream.requests.empty():
        received = upstream.received()
        if received.line.startswith(b"POST"):
            found.append(path_of(received) + "*" * (b"hello" in received.body))
    return found


@contextmanager
def before(folder, upstreams, *options):
    """The proxy before ``upstreams`` by their names; "" names the only one."""
    tables = [
        f'[[upstream]]\nname = "{name}"\nurl = "{upstream.url}"\n'
        + "fallback = true\n" * name.startswith("spare")
        for name, upstream in upstreams.items()
    ]
    (folder / "several.toml").write_text("\n".join(tables))
    only = upstreams.get("")
    where = ("--config", "several.toml") if only is None else ("--upstream", only.url)
    with Proxy(folder, *where, *options) as proxy:
        for upstream in upstreams.values():
            asked(upstream)
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def fresh(upstream, tmp_path):
    """A proxy that knows nothing of the upstream yet."""
    with before(tmp_path, {"": upstream}) as proxy:
        yield proxy


told = proxy_with("--dialect", "openai")


# Clients of Messages: requests are translated.


def test_a_server_of_the_clients_dialect_is_never_asked(fresh, upstream):
    upstream.reset(serving(MESSAGES))
    for _ in range(2):
        assert json.loads(ask(fresh, MESSAGES).body) == ANSWERS[MESSAGES]
    assert asked(upstream) == [f"{MESSAGES}*"] * 2


def test_a_server_of_the_other_dialect_is_asked_once(fresh, upstream):
    """When it does not know the client's path; from then on requests are translated at once."""
    upstream.reset(serving(CHAT))
    for _ in range(2):
        answer = ask(fresh, MESSAGES)
        assert (answer.status, answer.end) == (200, "whole")
        assert json.loads(answer.body)["type"] == "message"
        assert answer.values(b"x-kept") == [b"1"]
    assert asked(upstream) == [f"{MESSAGES}*", MESSAGES, CHAT, f"{CHAT}*", f"{CHAT}*"]


MISSING = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}


@pytest.mark.parametrize(
    ("options", "server", "came_down"),
    [
        ((), serving(MESSAGES, answer=lambda peer, _: reply(peer, MISSING, NOT_FOUND)), MISSING),
        ((), serving(), error("File Not Found")),
        (("--dialect", "anthropic"), serving(CHAT), error("File Not Found")),
    ],
    ids=["the path but not the model", "neither path", "said to speak Messages"],
)
def test_what_a_server_says_of_what_it_does_not_know_comes_down(
    upstream, tmp_path, options, server, came_down
):
    """Its 404 is the answer; one whose API was told is asked nothing."""
    with before(tmp_path, {"": upstream}, *options) as proxy:
        upstream.reset(server)
        answer = ask(proxy, MESSAGES)
    assert (answer.status, json.loads(answer.body)) == (404, came_down)
    assert asked(upstream)[1:] == [] or not options


def test_another_server_may_take_its_place(tmp_path):
    port = free_port()
    first = Upstream(socket.create_server(("127.0.0.1", port)))
    first.reset(serving(CHAT))
    with Proxy(tmp_path, "--upstream", first.url) as proxy:
        assert json.loads(ask(proxy, MESSAGES).body)["type"] == "message"
        first.close()
        eventually(lambda: ask(proxy, MESSAGES).status == 502)
        second = Upstream(socket.create_server(("127.0.0.1", port)))
        second.reset(serving(MESSAGES))
        assert json.loads(ask(proxy, MESSAGES).body) == ANSWERS[MESSAGES]
        assert asked(second) == [f"{MESSAGES}*"]
        second.close()


HTTP_1_0 = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("count", [1, 2, len(EVENTS)])
@pytest.mark.parametrize("how", ["its end", "a reset", "its connection"])
def test_a_stream_comes_as_the_clients_events(told, upstream, count, how):
    """What came is delivered; the client sees if it is not all: no message_stop, no end.

    One that ends with its connection is whole if it came to its end; else that is logged.
    """
    is_whole = count == len(EVENTS) and how != "a reset"
    server = stream_of(EVENTS[:count], end=how == "its end")
    if how == "its connection":
        server = serving(CHAT, answer=says(HTTP_1_0 + b"".join(EVENTS[:count])))
    upstream.reset(server)
    mark = told.mark()
    answer = ask(told, MESSAGES, MESSAGE | {"stream": True})
    assert (answer.end == "whole") == is_whole
    assert answer.end != "timeout"
    assert not answer.values(b"content-length")
    kinds = [line[7:] for line in answer.body.split(b"\n") if line.startswith(b"event: ")]
    assert kinds[0] == b"message_start"
    assert (kinds[-2:] == [b"message_delta", b"message_stop"]) == (count == len(EVENTS))
    assert (b"hi" in answer.body) == (count > 1)
    if how == "its connection":
        line = told.wait_for(" #1 ", mark)
        assert (f"UPSTREAM FAILED: {CUT}" in line) == (not is_whole)


def test_an_error_of_the_server(told, upstream):
    """In the client's form, with its status and retry-after."""
    limit = {"error": {"message": "slow down", "type": "rate_limit"}}
    upstream.reset(lambda peer, _: reply(peer, limit, b"429 Too Many", b"Retry-After: 7"))
    answer = ask(told, MESSAGES, MESSAGE | {"stream": True})
    assert (answer.status, answer.values(b"retry-after")) == (429, [b"7"])
    assert json.loads(answer.body)["error"]["type"] == "rate_limit_error"


WHOLE = json.dumps(ANSWERS[CHAT]).encode()
NONSENSE = {
    "no JSON": whole(b"not json", TYPE),
    "a list": whole(b"[]", TYPE),
    "no choice": whole(b'{"choices":[]}', TYPE),
    "empty": whole(b"", TYPE),
    "cut short": b"HTTP/1.0 200 OK\r\n%s\r\n\r\n%s" % (TYPE, WHOLE[:-9]),
    "whole where a stream is wanted": whole(WHOLE, TYPE),
}


@pytest.mark.parametrize("sent", NONSENSE)
def test_an_answer_that_makes_no_sense(told, upstream, sent):
    """502 in the client's form: nothing has gone down yet.

    Some SDKs would take a whole answer for an empty stream.
    """
    upstream.reset(says(NONSENSE[sent]))
    answer = ask(told, MESSAGES, MESSAGE | {"stream": "stream" in sent})
    assert (answer.status, answer.end) == (502, "whole")
    assert json.loads(answer.body)["type"] == "error"


def test_a_request_that_cannot_be_translated(told, upstream):
    """400 in the client's form, naming the place; the log has it as refused."""
    upstream.reset(serving(CHAT))
    mark = told.mark()
    answer = ask(told, MESSAGES, MESSAGE | {"tools": [{"name": "x"}]})
    assert answer.status == 400
    refused = json.loads(answer.body)["error"]
    assert refused["type"] == "invalid_request_error"
    assert "/tools/0" in refused["message"]
    assert upstream.requests.empty()
    assert "  400 REFUSED: /tools/0" in told.wait_for("client/", mark)


def test_tokens_are_counted_by_the_server_or_estimated(told, upstream):
    pages = {"/apply-template": {"prompt": "hello"}, "/tokenize": {"tokens": [1, 2, 3]}}
    upstream.reset(lambda peer, received: reply(peer, pages[path_of(received)]))
    path = f"{MESSAGES}/count_tokens"
    assert json.loads(ask(told, path).body) == {"input_tokens": 3}
    upstream.reset(serving(CHAT))
    assert json.loads(ask(told, path).body)["estimated"] is True
    assert ask(told, path, {"messages": 7}).status == 400


def test_the_list_of_models(told, upstream):
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1}]}
    upstream.reset(lambda peer, _: reply(peer, listed))
    version = b"anthropic-version: 2023-06-01"
    answer = told.ask("/v1/models", None, version, method=b"GET")
    assert json.loads(answer.body)["data"][0]["type"] == "model"
    assert json.loads(told.ask("/v1/models", None, method=b"GET").body) == listed


def test_a_client_that_leaves_while_the_server_is_asked(fresh, upstream):
    closed = []

    def script(peer, received):
        if json.loads(received.body or b"{}"):
            peer.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n")
        closed.append(peer.wait_closed())

    upstream.reset(script)
    with Client(fresh.address) as client:
        client.ask(MESSAGES, json.dumps(MESSAGE).encode())
        upstream.received()
        upstream.received()
    eventually(lambda: closed == [True, True])


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (MESSAGES, b'{"messages":[]}', True),
        (f"{MESSAGES}/count_tokens", b'{"messages":[]}', True),
        (MESSAGES, b"{}", False),
        (MESSAGES, b"[]", False),
        (f"{CHAT}/", b'{"messages":[]}', False),
        ("/apply-template", b'{"messages":[]}', False),
        ("/v1/responses", b'{"messages":[]}', False),
    ],
)
def test_what_is_translated_is_a_prompt_to_be_answered_or_counted(path, body, expected):
    """But no other proxy's question, so that two of them never ask each other."""
    translating = Translating(None, None, "openai")
    assert translating.translates(Request("POST", path, (), body)) is expected
    assert not translating.translates(Request("GET", path, (), body))


# Clients of Chat Completions: nothing translates into Messages.

MENDED = (
    ", only Anthropic's Messages API, and the proxy translates only the other way: use a model "
    "server that has /v1/chat/completions, or a client that speaks Messages"
)
NONE = f"no Chat Completions at {{0}}{MENDED}"
NONE_OF_TWO = f"cacheproxy: {NONE}".replace("{0}", "any of first ({0}), spare ({1})")
DOWN = (
    "cacheproxy: cannot connect to {0}; check that the model server is running there; "
    "no Chat Completions at {1}"
)
LOADING = "cacheproxy: the upstream answered with status 503 ({0}); no Chat Completions at {1}"
NO_MODEL = serving(
    CHAT, MESSAGES, answer=lambda peer, _: reply(peer, error("no such model"), NOT_FOUND)
)
LOADS = serving(CHAT, answer=lambda peer, _: reply(peer, {}, b"503 Service Unavailable"))
ALONE, ABLE = serving(MESSAGES), serving(CHAT)
TAKEN = "all other upstreams are down or do not speak Chat Completions: requests go to spare"
BEFORE = {
    # upstreams, what the proxy is told of them, status, and the error in one line
    "one": ({"": ALONE}, "auto", 404, f"cacheproxy: {NONE}"),
    "one, as was said": ({"": ALONE}, "anthropic", 404, f"cacheproxy: {NONE}"),
    "one that is said to speak it": ({"": ALONE}, "openai", 404, "File Not Found"),
    "a model that is missing": ({"": NO_MODEL}, "auto", 404, "no such model"),
    "a missing model of Messages": ({"": NO_MODEL}, "anthropic", 404, "no such model"),
    "a missing model of Chat": ({"": NO_MODEL}, "openai", 404, "no such model"),
    "another can": ({"messages": ALONE, "other": ABLE}, "auto", 200, None),
    "a fallback can": ({"messages": ALONE, "spare": ABLE}, "auto", 200, None),
    "the third can": ({"a": ALONE, "b": ALONE, "spare": ABLE}, "auto", 200, None),
    "none of two": ({"first": ALONE, "spare": ALONE}, "auto", 404, NONE_OF_TWO),
    "the first is down": ({"first": None, "spare": ALONE}, "auto", 502, DOWN),
    "the first loads": ({"first": LOADS, "spare": ALONE}, "auto", 502, LOADING),
}


@pytest.mark.parametrize("servers", BEFORE)
def test_where_messages_alone_are_served(tmp_path, servers):
    """One that cannot serve is passed over, and no attempt; where none can, the error says so.

    404 as the server said, which no SDK tries again, or 502 where it may come back. Nobody is sent
    the prompt as Messages.
    """
    scripts, dialect, status, said = BEFORE[servers]
    with ExitStack() as stack:
        upstreams = {name: stack.enter_context(sound_upstream()) for name in scripts}
        for name, script in scripts.items():
            upstreams[name].reset(script or ABLE)
        proxy = stack.enter_context(before(tmp_path, upstreams, "--dialect", dialect))
        for name, script in scripts.items():
            if script is None:
                upstreams[name].close()
        for _ in range(2):  # what was learned counts as well
            answer = ask(proxy, CHAT)
            assert answer.status == status
            if said is not None:
                urls = [upstream.url for upstream in upstreams.values()]
                assert json.loads(answer.body)["error"]["message"] == said.format(*urls)
        paths = [path for upstream in upstreams.values() for path in asked(upstream)]
        assert f"{CHAT}*" in paths
        assert f"{MESSAGES}*" not in paths
        if dialect == "openai":
            assert paths == [f"{CHAT}*"] * 2
        if status == 200:
            proxy.mark()
            assert proxy.output.count(TAKEN) == ("spare" in scripts)


@pytest.mark.parametrize("stream", [False, True])
def test_the_sdk_raises_one_line_that_says_what_to_do(fresh, upstream, stream):
    """The server is asked what it serves the first time."""
    upstream.reset(ALONE)
    said = NONE.format(upstream.url)
    with (
        openai.DefaultHttpxClient(trust_env=False) as plain,
        openai.OpenAI(
            base_url=f"{fresh.url}/v1", api_key="k", max_retries=0, http_client=plain
        ) as client,
    ):
        for questions in ([CHAT, MESSAGES], []):
            with pytest.raises(openai.NotFoundError) as caught:
                client.chat.completions.create(stream=stream, **MESSAGE)
            assert str(caught.value) == f"Error code: 404 - cacheproxy: {said}"
            assert caught.value.type == "invalid_request_error"
            fresh.wait_for(f"  404 REFUSED: {said}")
            assert asked(upstream) == [f"{CHAT}*", *questions]
    upstream.reset(ABLE)  # another server in its place is used at once
    assert ask(fresh, CHAT).status == 200


def test_two_proxies_in_a_row_say_it_too_and_serve_clients_of_messages(upstream, tmp_path):
    """The outer one asks what the inner one serves, and is told."""
    upstream.reset(ALONE)
    with (
        before(tmp_path, {"": upstream}) as inner,
        before(tmp_path, {"": upstream}, "--upstream", inner.url) as outer,
    ):
        answer = ask(outer, CHAT)
        assert answer.status == 404
        said = json.loads(answer.body)["error"]["message"]
        assert said == f"cacheproxy: {NONE.format(inner.url)}"
        assert ask(outer, MESSAGES).status == 200
