"""Who gets in, on real sockets: what core/privacy decides holds for every path."""

import json

import pytest

from .conftest import proxy_with
from .harness import Client, whole

TOKEN = b"a-token-for-tests"
KEY = b"x-api-key: " + TOKEN
PATHS = ["/v1/messages", "/v1/chat/completions", "/_cacheproxy/exchanges", "/"]


# It asks for a token and listens everywhere.
guarded = proxy_with(
    *("--interface", "0.0.0.0", "--allow-host", "gpu.lan,Other.lan"),
    CACHEPROXY_TOKEN=TOKEN.decode(),
)


@pytest.fixture(scope="module", autouse=True)
def _hidden(guarded):
    yield
    assert TOKEN.decode() not in guarded.output


def asked(proxy, path, *fields, host=b"127.0.0.1"):
    lines = [b"POST %s HTTP/1.1" % path.encode(), *([b"Host: " + host] if host else ())]
    with Client(proxy.address) as client:
        client.send(b"\r\n".join([*lines, *fields, b"Content-Length: 2", b"", b"{}"]))
        return client.answer()


@pytest.mark.parametrize("path", PATHS)
def test_web_pages_of_other_sites_get_nothing(proxy, upstream, path):
    for status, host, *fields in (
        (421, b"evil.example"),
        (421, b"0.0.0.0:8081"),
        (400, b""),
        (403, b"127.0.0.1", b"Origin: https://evil.example"),
        (403, b"127.0.0.1", b"Origin: null"),
        (403, b"127.0.0.1", b"Sec-Fetch-Site: cross-site"),
    ):
        answer = asked(proxy, path, *fields, host=host)
        assert (answer.status, b"cacheproxy: " in answer.body) == (status, True), (host, fields)
        assert not answer.values(b"access-control-allow-origin")
    assert upstream.requests.empty()


def test_the_servers_permissions_for_other_sites_are_taken_out(connect, respond):
    """llama-server sends them with every answer."""
    theirs = (b"Access-Control-Allow-Origin: *", b"access-control-allow-headers: *", b"X-Kept: 1")
    respond(whole(b"", *theirs))
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


@pytest.mark.parametrize("path", PATHS)
def test_a_url_opens_nothing_that_its_path_does_not(guarded, upstream, path):
    """A URL of ours needs the token, too; a Host of ours opens no other."""
    ours = f"http://127.0.0.1:{guarded.address[1]}"
    for status, site, *fields in (
        (401, ours),
        (403, ours, KEY, b"Origin: https://evil.example"),
        (403, ours, KEY, b"Origin: http://127.0.0.1"),
        (421, "http://evil.example", KEY),
        (421, ours.replace("127.0.0.1", "third.lan"), KEY),
        (421, "https://gpu.lan", KEY),
    ):
        answer = asked(guarded, site + path, *fields)
        assert (answer.status, b"cacheproxy: " in answer.body) == (status, True), (site, fields)
    assert upstream.requests.empty()


@pytest.mark.parametrize(
    ("field", "goes_on"),
    [
        (KEY, (b"authorization", b"Bearer sk-upstream")),
        (b"Authorization: Bearer " + TOKEN, (b"x-api-key", b"sk-upstream")),
        (b"X-Cacheproxy-Token: " + TOKEN, (b"x-api-key", b"sk-upstream")),
    ],
)
def test_with_it_all_is_answered_and_the_upstream_does_not_see_it(
    guarded, upstream, field, goes_on
):
    """A key of the upstream's own goes on. In a URL of ours its host counts, whatever Host says."""
    for site, host in (("", b"127.0.0.1"), (f"http://127.0.0.1:{guarded.address[1]}", b"evil")):
        target = f"{site}/v1/messages?key={TOKEN.decode()}&beta=true"
        assert asked(guarded, target, field, b": ".join(goes_on), host=host).status == 200
        received = upstream.received()
        assert received.line == b"POST /v1/messages?beta=true HTTP/1.1"
        assert TOKEN not in b"".join(value for _, value in received.headers)
        assert received.values(goes_on[0]) == [goes_on[1]]


def test_names_that_were_allowed(guarded):
    for host in (b"gpu.lan:8081", b"GPU.lan", b"other.lan:1"):
        assert asked(guarded, "/v1/messages", KEY, host=host).status == 200
    assert asked(guarded, "/v1/messages", KEY, host=b"third.lan").status == 421
