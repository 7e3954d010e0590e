"""Web pages of other origins, on real sockets: what their browsers are sent, and what is not."""

import signal

import pytest

from .conftest import proxy_with
from .harness import CHUNKED, Proxy, whole

PAGE = b"Origin: http://localhost:3000"
OTHER = b"Origin: http://localhost:3001"
TOKEN = "a-token-for-tests"


_shared = proxy_with(
    *("--allow-origin", "http://localhost:3000,tauri://localhost", "--max-body", "1"),
    CACHEPROXY_TOKEN=TOKEN,
)


@pytest.fixture
def proxy(_shared, upstream):
    """One that lets two origins in, and asks for a token."""
    return _shared


KEY = b"Authorization: Bearer " + TOKEN.encode()


def shared(answer):
    """Which origins may read the answer, and what of its head."""
    return (
        answer.values(b"access-control-allow-origin"),
        answer.values(b"access-control-expose-headers"),
        b"Origin" in answer.values(b"vary"),
    )


FOR_PAGE = ([b"http://localhost:3000"], [b"*"], True)
FOR_OTHERS = ([], [], True)


@pytest.mark.parametrize("fields", [(), (b"Access-Control-Request-Headers: authorization, x-a",)])
def test_a_preflight_is_answered_here(connect, upstream, fields):
    """Without the token, and on a connection that goes on."""
    client = connect()
    asks = (b"Access-Control-Request-Method: POST", *fields)
    for _ in range(2):
        client.ask("/v1/chat/completions", None, PAGE, *asks, method=b"OPTIONS")
        answer = client.answer(method=b"OPTIONS")
        assert (answer.status, answer.end) == (204, "whole")
        assert answer.values(b"access-control-allow-origin") == [b"http://localhost:3000"]
        assert answer.values(b"access-control-allow-methods") == [b"POST"]
        asked = [field.partition(b": ")[2] for field in fields]
        assert answer.values(b"access-control-allow-headers") == asked
        assert answer.values(b"access-control-max-age") == [b"7200"]
        assert not answer.values(b"access-control-allow-credentials")
        assert not answer.values(b"content-length")
    client.ask("/v1/chat/completions", None, OTHER, *asks, method=b"OPTIONS")
    answer = client.answer()
    assert (answer.status, shared(answer)) == (403, FOR_OTHERS)
    assert upstream.requests.empty()


def test_the_models_answer_may_be_read(connect, upstream, respond):
    """By whom the proxy lets, not whom the server lets; the request goes up as it came."""
    respond(
        b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-expose-headers: x\r\n"
        b"Access-Control-Allow-Credentials: true\r\nX-Request-Id: 7\r\nVary: Accept\r\n"
        b"Content-Length: 2\r\n\r\nok"
    )
    for origin, wanted in ((PAGE, FOR_PAGE), (b"X: none", FOR_OTHERS)):
        answer = connect().ask("/v1/messages", b"{}", origin, KEY).answer()
        assert (answer.status, answer.body, shared(answer)) == (200, b"ok", wanted)
        assert answer.values(b"x-request-id") == [b"7"]
        assert answer.values(b"vary") == [b"Accept", b"Origin"]
        assert not answer.values(b"access-control-allow-credentials")
        assert upstream.received().values(origin.partition(b":")[0]) == [origin.split(b": ")[1]]
    answer = connect().ask("/v1/messages", b"{}", b"Origin: tauri://localhost", KEY).answer()
    assert answer.values(b"access-control-allow-origin") == [b"tauri://localhost"]


STREAM = CHUNKED + b"9\r\ndata: {}\n\r\n0\r\n\r\n"
FULL = whole(b"{}", b"Retry-After: 9", status=b"429 Wait")


@pytest.mark.parametrize(
    ("wanted", "target", "fields", "answered"),
    [
        (200, "/v1/messages", (KEY,), STREAM),
        (401, "/v1/messages", (), None),
        (413, "/v1/messages", (KEY, b"Content-Length: 2000000"), None),
        (413, "/v1/messages", (KEY, b"Transfer-Encoding: chunked", b"", b"fffffff"), None),
        (400, "v1/messages", (KEY,), None),
        (421, "http://localhost/v1/messages", (KEY,), None),
        (502, "/v1/messages", (KEY,), b""),
        (429, "/v1/messages", (KEY,), FULL),
    ],
)
def test_so_may_a_stream_and_an_error(
    connect, respond, upstream, *, wanted, target, fields, answered
):
    """Also one of the proxy's own: else the page sees no more than that something failed."""
    if answered is not None:
        respond(answered)
    answer = connect().ask(target, None, PAGE, *fields).answer()
    assert (answer.status, shared(answer)) == (wanted, FOR_PAGE)
    assert upstream.requests.empty() == (answered is None)


@pytest.mark.parametrize("path", ["", "/", "/exchanges", "/health", "/ready", "/static/x.js"])
def test_our_own_pages_are_for_nobody_elses(connect, path):
    fields = (KEY, b"Access-Control-Request-Method: GET")
    for method in (b"GET", b"OPTIONS"):
        client = connect().ask("/_cacheproxy" + path, None, PAGE, *fields, method=method)
        answer = client.answer()
        assert (answer.status, shared(answer)) == (403, ([], [], False))
    answer = connect().ask("/_cacheproxy" + path, None, KEY, method=b"GET").answer()
    assert shared(answer) == ([], [], False)


def test_a_reload_lets_in_and_shuts_out(upstream, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("")
    with Proxy(tmp_path, "--config", str(file), "--upstream", upstream.url) as proxy:
        assert proxy.ask("/x", b"{}", PAGE).status == 403
        for text, status in (('allow_origin = ["http://localhost:3000"]', 200), ("", 403)):
            mark = proxy.mark()
            file.write_text(text)
            proxy.signal(signal.SIGHUP)
            proxy.wait_for("reloaded", mark)
            assert proxy.ask("/x", b"{}", PAGE).status == status
