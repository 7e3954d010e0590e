"""The real server and the real proxy for the checks, and scripted peers for what they never do."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cacheproxy.demo.errors import DemoError
from cacheproxy.demo.proxy import ProxyService, require_plugin
from cacheproxy.doctor import prompt
from cacheproxy.doctor.site import Site
from cacheproxy.embedded import LlamaServer, write_model
from tests import needs

VOCABULARY = "\n".join(
    [prompt.text("0123456789abcdef"), prompt.QUESTION, prompt.Header("1a2", "b3c4d").text] * 3
)


class Peer:
    """An HTTP server that answers with JSON; ``pages``: path to a value, or to (status, value).

    A value may be bytes, which are sent as they are, or a function of the request's JSON that
    returns one. ``asked`` are the paths in the order they were asked for.
    """

    def __init__(self, pages):
        self.pages, self.asked = pages, []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                came = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                peer.asked.append(self.path)
                answer = peer.pages.get(self.path, (404, {"error": {"message": "File Not Found"}}))
                if callable(answer):
                    answer = answer(json.loads(came or b"null"))
                status, value = answer if isinstance(answer, tuple) else (200, answer)
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 (http.server's own name)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def peer():
    """Start a Peer."""
    peers = []

    def start(pages):
        peers.append(Peer(pages))
        return peers[-1]

    yield start
    for one in peers:
        one.close()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model whose words are those of the test prompt."""
    needs.llama()
    return write_model(tmp_path_factory.mktemp("model") / "tiny.gguf", text=VOCABULARY)


@pytest.fixture(scope="session")
def llama(model):
    """The embedded server."""
    with LlamaServer(model, n_ctx=8192, n_parallel=2) as server:
        yield server


@pytest.fixture(scope="session")
def proxy(llama):
    """The proxy as it comes, in front of the server."""
    try:
        require_plugin()
    except DemoError as missing:
        pytest.skip(str(missing))
    with ProxyService(llama.url) as service:
        yield service


@pytest.fixture
def site(llama):
    return Site(llama.url)


@pytest.fixture
def nobody():
    """A URL where nobody listens: port 9 of loopback is closed everywhere."""
    return "http://127.0.0.1:9"
