"""Who gets in, on real sockets: what core.access decides holds for every path."""

from __future__ import annotations

import json

import pytest

from .harness import Client, Proxy

TOKEN = "a-token-for-tests"
PATHS = ["/v1/messages", "/v1/chat/completions", "/_cacheproxy/exchanges", "/"]


@pytest.fixture(scope="module")
def guarded(_upstream, tmp_path_factory):
    """A proxy that asks for a token and listens everywhere."""
    arguments = ("--interface", "0.0.0.0", "--allow-host", "gpu.lan,Other.lan")
    folder = tmp_path_factory.mktemp("guarded")
    environ = {"CACHEPROXY_TOKEN": TOKEN}
    with Proxy(folder, *arguments, "--upstream", _upstream.url, **environ) as proxy:
        yield proxy
        assert TOKEN not in proxy.output


def ask(client, path, *fields, host=b"127.0.0.1", method=b"POST"):
    lines = [b"%s %s HTTP/1.1" % (method, path.encode())]
    lines += [b"Host: " + host] if host else []
    client.send(b"\r\n".join([*lines, *fields, b"Content-Length: 2", b"", b"{}"]))
    return client.answer()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("status", "host", "field"),
    [
        (421, b"evil.example", b"X: 1"),
        (421, b"0.0.0.0:8081", b"X: 1"),
        (400, b"", b"X: 1"),
        (403, b"127.0.0.1", b"Origin: https://evil.example"),
        (403, b"127.0.0.1", b"Origin: null"),
        (403, b"127.0.0.1", b"Sec-Fetch-Site: cross-site"),
    ],
)
def test_web_pages_of_other_sites_get_nothing(connect, upstream, *, path, status, host, field):
    """Neither an answer nor a request to the model server."""
    answer = ask(connect(), path, field, host=host)
    assert answer.status == status
    assert b"cacheproxy: " in answer.body
    assert not answer.values(b"access-control-allow-origin")
    assert upstream.requests.empty()


def test_the_servers_permissions_for_other_sites_are_taken_out(connect, respond):
    """llama-server sends them with every answer."""
    respond(
        b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-allow-headers: *\r\n"
        b"X-Kept: 1\r\nContent-Length: 0\r\n\r\n"
    )
    answer = connect().ask(body=b"{}").answer()
    assert answer.values(b"x-kept") == [b"1"]
    assert not [name for name, _ in answer.headers if name.lower().startswith(b"access-control")]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_answered(guarded, upstream, path):
    """401 in the client's dialect, before the body is read."""
    with Client(guarded.address) as client:
        client.ask(path, None, b"Content-Length: 1000000", b"Expect: 100-continue")
        answer = client.answer()
    assert (answer.status, answer.interim) == (401, [])
    assert answer.values(b"www-authenticate") == [b"Bearer"]
    error = json.loads(answer.body)["error"]
    assert "token" in error["message"]
    openai = ("invalid_request_error", "invalid_api_key")
    wanted = ("authentication_error", None) if "messages" in path else openai
    assert (error["type"], error.get("code")) == wanted
    assert upstream.requests.empty()


@pytest.mark.parametrize(
    ("field", "goes_on"),
    [
        (b"x-api-key: " + TOKEN.encode(), b"authorization: Bearer sk-upstream"),
        (b"Authorization: Bearer " + TOKEN.encode(), b"x-api-key: sk-upstream"),
        (b"X-Cacheproxy-Token: " + TOKEN.encode(), b"x-api-key: sk-upstream"),
    ],
)
def test_with_it_all_is_answered_and_the_upstream_does_not_see_it(
    guarded, upstream, field, goes_on
):
    """A key of the upstream's own goes on."""
    with Client(guarded.address) as client:
        target = f"/v1/messages?key={TOKEN}&beta=true"
        assert client.ask(target, b"{}", field, goes_on).answer().status == 200
    received = upstream.received()
    assert received.line == b"POST /v1/messages?beta=true HTTP/1.1"
    assert TOKEN.encode() not in b"".join(value for _, value in received.headers)
    name, _, value = goes_on.partition(b": ")
    assert received.values(name) == [value]


@pytest.mark.parametrize("path", PATHS)
def test_a_url_opens_nothing_that_its_path_does_not(guarded, upstream, path):
    """A URL of ours needs the token, too; a Host of ours opens no other."""
    at = f"http://127.0.0.1:{guarded.address[1]}"
    key = b"x-api-key: " + TOKEN.encode()
    for url, fields, wanted in (
        (at, (), 401),
        (at, (b"Origin: https://evil.example", key), 403),
        (at, (b"Origin: http://127.0.0.1", key), 403),
        ("http://evil.example", (key,), 421),
        (at.replace("127.0.0.1", "third.lan"), (key,), 421),
        ("https://gpu.lan", (key,), 421),
    ):
        with Client(guarded.address) as client:
            answer = ask(client, url + path, *fields)
            assert (answer.status, "cacheproxy: " in answer.body.decode()) == (wanted, True)
    assert upstream.requests.empty()
    with Client(guarded.address) as client:
        target = f"{at}/v1/messages?key={TOKEN}&beta=true"
        assert ask(client, target, key, host=b"evil.example").status == 200
    received = upstream.received()
    assert received.line == b"POST /v1/messages?beta=true HTTP/1.1"
    assert TOKEN.encode() not in b"".join(value for _, value in received.headers)


@pytest.mark.parametrize("host", [b"gpu.lan:8081", b"GPU.lan", b"other.lan:1"])
def test_names_that_were_allowed(guarded, host):
    """And no others."""
    key = b"x-api-key: " + TOKEN.encode()
    with Client(guarded.address) as client:
        assert ask(client, "/v1/messages", key, host=host).status == 200
    with Client(guarded.address) as client:
        assert ask(client, "/v1/messages", key, host=b"third.lan").status == 421
