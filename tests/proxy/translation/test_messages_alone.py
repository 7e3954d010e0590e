"""Clients of Chat Completions before servers that speak Messages alone, on real sockets."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from tests.proxy.harness import Client, Proxy, Upstream, whole

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.slow

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
SAID = [{"role": "user", "content": "hello"}]
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    ],
}
NO_PATH = {"error": {"message": "File Not Found"}}
MENDED = (
    ", only Anthropic's Messages API, and the proxy translates only the other way: use a model "
    "server that has /v1/chat/completions, or a client that speaks Messages"
)


def reply(peer, value, status=b"200 OK"):
    peer.send(whole(json.dumps(value).encode(), b"Content-Type: application/json", status=status))


def serving(*paths, status=b"200 OK"):
    """A server that knows ``paths`` alone, and its own health; ``status``: of its answers."""

    def script(peer, received):
        method, path = received.line.decode().split()[:2]
        if path == "/health":
            reply(peer, {"status": "ok"})
        elif method != "POST" or path not in paths:
            reply(peer, NO_PATH, b"404 Not Found")
        elif "messages" not in json.loads(received.body):
            reply(peer, {"error": {"message": "no messages"}}, b"400 Bad Request")
        else:
            reply(peer, COMPLETION, status)

    return script


def posts_of(upstream):
    """The path of each POST, and whether it was a prompt."""
    found = []
    while not upstream.requests.empty():
        received = upstream.received()
        method, path = received.line.decode().split()[:2]
        if method == "POST" and path in (CHAT, MESSAGES):
            found.append((path, b"hello" in received.body))
    return found


@contextmanager
def before(folder, upstreams, *options):
    """The proxy before ``upstreams`` by their names; "" names the only one."""
    file = folder / "several.toml"
    tables = [
        f'[[upstream]]\nname = "{name}"\nurl = "{upstream.url}"\n'
        + ("fallback = true\n" if name.startswith("spare") else "")
        for name, upstream in upstreams.items()
    ]
    file.write_text("\n".join(tables))
    only = upstreams.get("")
    where = ("--config", str(file)) if only is None else ("--upstream", only.url)
    with Proxy(folder, *where, *options) as proxy:
        for upstream in upstreams.values():
            posts_of(upstream)
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def messages():
    """A server that speaks Messages alone."""
    with sound(serving(MESSAGES)) as upstream:
        yield upstream


@contextmanager
def sound(script):
    upstream = Upstream()
    upstream.reset(script)
    try:
        yield upstream
        assert not upstream.errors
    finally:
        upstream.close()


def raised(proxy, *, stream=False):
    """What the official SDK raises, without trying again by itself."""
    with (
        openai.DefaultHttpxClient(trust_env=False) as plain,
        openai.OpenAI(
            base_url=f"{proxy.url}/v1", api_key="k", max_retries=0, http_client=plain
        ) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.chat.completions.create(model="m", messages=SAID, stream=stream)
    return caught.value


def ask(proxy):
    with Client(proxy.address) as client:
        body = json.dumps({"model": "m", "messages": SAID}).encode()
        return client.ask(CHAT, body).answer()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("options", [(), ("--dialect", "anthropic")])
def test_the_sdk_raises_one_line_that_says_what_to_do(tmp_path, messages, options, stream):
    """404 as the server said, which no SDK tries again; nothing was sent as Messages."""
    with before(tmp_path, {"": messages}, *options) as proxy:
        found = raised(proxy, stream=stream)
        assert type(found) is openai.NotFoundError
        said = f"no Chat Completions at {messages.url}{MENDED}"
        assert str(found) == f"Error code: 404 - cacheproxy: {said}"
        assert found.type == "invalid_request_error"
        proxy.wait_for(f"  404 REFUSED: {said}")
        asked = [(CHAT, True), (CHAT, False)] + ([] if options else [(MESSAGES, False)])
        assert posts_of(messages) == asked
        raised(proxy, stream=stream)
        assert posts_of(messages) == [(CHAT, True)], "what it serves was known"


def test_another_server_in_its_place_is_used_at_once(tmp_path, messages):
    """What was learned of the one before keeps no request from it."""
    with before(tmp_path, {"": messages}) as proxy:
        assert ask(proxy).status == 404
        messages.reset(serving(CHAT))
        assert ask(proxy).status == 200


def test_a_model_that_is_missing_is_no_api_that_is_missing(tmp_path, messages):
    """The server's own words come down."""
    messages.reset(serving(CHAT, MESSAGES, status=b"404 Not Found"))
    for options in ((), ("--dialect", "anthropic"), ("--dialect", "openai")):
        with before(tmp_path, {"": messages}, *options) as proxy:
            answer = ask(proxy)
            assert (answer.status, json.loads(answer.body)) == (404, COMPLETION)


def test_a_server_that_is_said_to_speak_chat_is_taken_at_its_word(tmp_path, messages):
    """Its 404 comes down, and it is asked nothing."""
    with before(tmp_path, {"": messages}, "--dialect", "openai") as proxy:
        answer = ask(proxy)
        assert (answer.status, json.loads(answer.body)) == (404, NO_PATH)
        assert posts_of(messages) == [(CHAT, True)]


def test_it_is_passed_over_where_another_can(tmp_path, messages):
    """Whichever is asked first; a fallback stands in, which is told once."""
    with sound(serving(CHAT)) as other:
        for name in ("other", "spare"):
            with before(tmp_path, {"messages": messages, name: other}) as proxy:
                for _ in range(3):
                    assert ask(proxy).status == 200
                assert all(path == CHAT or not prompt for path, prompt in posts_of(messages))
                said = (
                    "all other upstreams are down or do not speak Chat Completions: "
                    "requests go to spare, which is a fallback"
                )
                if name == "spare":
                    proxy.wait_for(said)
                assert proxy.output.count(said) == (name == "spare")


def test_two_are_passed_over(tmp_path, messages):
    """They are no attempts: the third is asked, however many there are."""
    with sound(serving(MESSAGES)) as second, sound(serving(CHAT)) as spare:
        with before(tmp_path, {"a": messages, "b": second, "spare": spare}) as proxy:
            assert ask(proxy).status == 200
        assert (CHAT, True) in posts_of(messages)
        assert (CHAT, True) in posts_of(second)


def test_where_none_can_the_error_names_all(tmp_path, messages):
    """As of one: the same status, the same mend."""
    with (
        sound(serving(MESSAGES)) as spare,
        before(tmp_path, {"first": messages, "spare": spare}) as proxy,
    ):
        found = raised(proxy)
        assert type(found) is openai.NotFoundError
        where = f"any of first ({messages.url}), spare ({spare.url})"
        assert found.body["message"] == f"cacheproxy: no Chat Completions at {where}{MENDED}"


def test_a_fallback_that_cannot_stand_in_is_told_beside_what_is_wrong(tmp_path, messages):
    """502, whether it is known already that the first is down or not: it may come back."""
    first = Upstream()
    with before(tmp_path, {"first": first, "spare": messages}) as proxy:
        first.close()
        for _ in range(2):
            found = raised(proxy)
            assert found.status_code == 502
            assert found.body["message"] == (
                f"cacheproxy: cannot connect to {first.url}; check that the model server is "
                f"running there; no Chat Completions at {messages.url}"
            )


def test_a_fallback_that_cannot_stand_in_for_one_that_loads(tmp_path, messages):
    """502 as well: it is worth a try later."""
    with (
        sound(serving(CHAT, status=b"503 Service Unavailable")) as first,
        before(tmp_path, {"first": first, "spare": messages}) as proxy,
    ):
        found = raised(proxy)
        assert found.status_code == 502
        assert found.body["message"] == (
            f"cacheproxy: the upstream answered with status 503 ({first.url}); "
            f"no Chat Completions at {messages.url}"
        )


def test_two_proxies_in_a_row_say_it_too(tmp_path, messages):
    """The outer one asks what the inner one serves, and is told."""
    with (
        before(tmp_path, {"": messages}) as inner,
        before(tmp_path, {"": messages}, "--upstream", inner.url) as outer,
    ):
        found = raised(outer)
        assert found.status_code == 404
        assert found.body["message"] == f"cacheproxy: no Chat Completions at {inner.url}{MENDED}"


def test_clients_of_messages_are_served_there(tmp_path, messages):
    """Beside those that are not."""
    with before(tmp_path, {"": messages}) as proxy, Client(proxy.address) as client:
        assert ask(proxy).status == 404
        body = json.dumps({"model": "m", "max_tokens": 9, "messages": SAID}).encode()
        assert client.ask(MESSAGES, body).answer().status == 200
