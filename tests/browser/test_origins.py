"""A chat page of another origin, in a real browser: what it may ask, and what it may read."""

from __future__ import annotations

import http.server
import threading

import pytest

from tests.proxy.harness import Proxy, Upstream, head

TOKEN = "a-token-for-tests"
CHAT = """async ([url, token]) => {
  const headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token};
  try {
    const answer = await fetch(url, {method: "POST", headers, body: '{"stream": true}'});
    const reader = answer.body.getReader(), pieces = [];
    for (let it; !(it = await reader.read()).done;) pieces.push(new TextDecoder().decode(it.value));
    return [answer.status, answer.headers.get("X-Request-Id"), pieces.join("")];
  } catch (error) { return String(error); }
}"""
READ = "(url) => fetch(url).then((answer) => answer.text()).catch(String)"
REFUSED = "TypeError: Failed to fetch"
EVENT = b'data: {"choices": []}\n\n'


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>chat</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin():
    """Where the page is served."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser, origin):
    """The page, open."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(origin)
    yield page
    context.close()


def script(peer, received):
    """Stream two events, and allow everybody, as llama-server does."""
    peer.send(
        head(
            b"Content-Type: text/event-stream",
            b"Access-Control-Allow-Origin: *",
            b"X-Request-Id: 7",
            b"Transfer-Encoding: chunked",
        )
    )
    for event in (EVENT, b"data: [DONE]\n\n"):
        peer.chunk(event)
    peer.send(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.close()
    assert not upstream.errors


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_page_of_another_port_chats_if_it_is_allowed(
    *, page, origin, upstream, tmp_path, is_allowed
):
    """Its stream, its headers and errors; never our own pages."""
    options = ("--allow-origin", origin) if is_allowed else ()
    with Proxy(tmp_path, *options, "--upstream", upstream.url, CACHEPROXY_TOKEN=TOKEN) as proxy:
        upstream.reset(script)
        url = proxy.url + "/v1/chat/completions"
        if is_allowed:
            stream = EVENT.decode() + "data: [DONE]\n\n"
            assert page.evaluate(CHAT, [url, TOKEN]) == [200, "7", stream]
            assert upstream.received().line == b"POST /v1/chat/completions HTTP/1.1"
            status, _, error = page.evaluate(CHAT, [url, "another"])
            assert status == 401
            assert "this proxy needs its token: send" in error
        else:
            assert page.evaluate(CHAT, [url, TOKEN]) == REFUSED
            assert f"--allow-origin {origin}" in proxy.wait_for("(403): web pages of")
        for path in ("exchanges", "health", "ready", ""):
            assert page.evaluate(READ, f"{proxy.url}/_cacheproxy/{path}") == REFUSED
        assert upstream.requests.empty()
