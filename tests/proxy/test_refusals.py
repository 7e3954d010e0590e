"""A request that the upstream turns down: the client hears it whole, the log in one line."""

from __future__ import annotations

import json
import threading

import pytest

from cacheproxy.core.placement.refusal import WITHHELD
from tests.observe.exchanges import body

from .harness import Client, Proxy, eventually, head, whole

JSON = b"Content-Type: application/json"
SESSION = b"X-Session-Id: refused1"
TYPED = "the green kingfisher brings a worm or two to its chicks in the hole of the river bank"
MESSAGES, CHAT, OLLAMA = "/v1/messages", "/v1/chat/completions", "/api/chat"


@pytest.fixture
def proxy(upstream, tmp_path_factory):
    """One with nothing in its records."""
    folder = tmp_path_factory.mktemp("refusals")
    with Proxy(folder, "--upstream", upstream.url, "--state-dir", "none") as proxy:
        yield proxy
        assert TYPED[:20] not in proxy.output
        assert "Traceback" not in proxy.output


def page(proxy, name):
    with Client(proxy.address) as client:
        target = f"/_cacheproxy/{name}"
        return client.ask(target, None, method=b"GET").answer(method=b"GET").body


def exchanges(proxy, count):
    """The list of the last exchanges, once there are ``count``."""
    found = []

    def there():
        found[:] = json.loads(page(proxy, "exchanges"))["exchanges"]
        return len(found) == count

    eventually(there)
    return found


def turned_down(error, status=b"400 Bad Request"):
    return whole(json.dumps(error).encode(), JSON, b"Server: llama.cpp", status=status)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (MESSAGES, {"type": "error", "error": {"type": "x", "message": "no such slot"}}),
        (CHAT, {"error": {"code": 400, "message": "no such slot"}}),
        (OLLAMA, {"error": "no such slot"}),
        (CHAT, {"detail": "no such slot"}),
        (CHAT, "no such slot"),
    ],
)
def test_it_is_quoted_in_the_log(connect, respond, proxy, path, error):
    """Whatever the dialect; the client has the answer as it came."""
    answer = turned_down(error)
    respond(answer)
    mark = proxy.mark()
    heard = connect().ask(path, json.dumps(body(TYPED)).encode(), SESSION).answer()
    assert (heard.status, heard.body) == (400, answer.partition(b"\r\n\r\n")[2])
    line = proxy.wait_for("refused1"[:4], mark)
    assert line.endswith('  400 from llama-server: "no such slot"')


def test_nothing_of_the_request_is(connect, respond, proxy):
    """Though the server repeats it, in the message and beside it."""
    respond(turned_down({"error": {"message": f"cannot read {TYPED}", "input": TYPED}}))
    mark = proxy.mark()
    connect().ask(MESSAGES, json.dumps(body(TYPED)).encode(), SESSION).answer()
    assert proxy.wait_for("refu", mark).endswith(f"  400 from llama-server: {WITHHELD}")


def test_its_body_passes_piece_by_piece(connect, serve, proxy):
    """It is not held back to be read, however long it is."""
    start, rest = b'{"error":{"message":"no such slot","of":"', b"x" * 100_000 + b'"}}'

    def script(peer, _):
        peer.send(head(JSON, b"Transfer-Encoding: chunked", status=b"500 Oh"))
        peer.chunk(start)
        assert client_has_start.wait(10)
        peer.chunk(rest)
        peer.send(b"0\r\n\r\n")

    client_has_start = threading.Event()
    serve(script)
    mark = proxy.mark()
    client = connect()
    client.ask(MESSAGES, json.dumps(body(TYPED)).encode(), SESSION)
    answer = client.begin()
    pieces = client.pieces(answer)
    assert next(pieces) == start
    client_has_start.set()
    assert b"".join(pieces) == rest
    assert proxy.wait_for("refu", mark).endswith('  500 from the upstream: "no such slot"')


def test_it_is_no_turn(connect, respond, proxy):
    """The next one is compared with the last that was answered; the failed are counted."""
    usage = {"input_tokens": 900, "cache_read_input_tokens": 0, "output_tokens": 1}
    good = whole(json.dumps({"type": "message", "usage": usage}).encode(), JSON)
    refused = turned_down({"error": {"message": "no such slot"}})
    gone = turned_down({"error": {"message": "File Not Found"}}, b"404 Not Found")
    usage = {"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 1}
    more = whole(json.dumps({"type": "message", "usage": usage}).encode(), JSON)
    texts = [("a" * 3000,), ("a" * 3000, "b", "c"), ("other",), ("a" * 3000, "b", "d")]
    for answer, said in zip((good, refused, gone, more), texts, strict=True):
        respond(answer)
        connect().ask(MESSAGES, json.dumps(body(*said)).encode(), SESSION).answer()
    found = exchanges(proxy, 4)
    assert [(one["turn"], one["verdict"], one["error"]) for one in found] == [
        (1, "cold", None),
        (0, None, "no such slot"),
        (0, None, "File Not Found"),
        (2, "ok", None),
    ]
    assert json.loads(page(proxy, "diagnose/last"))["number"] == found[3]["number"]
    why = json.loads(page(proxy, f"diagnose/{found[1]['number']}"))["error"]
    assert why.endswith("failed with status 400 (no such slot): the server evaluated nothing")
    requests = json.loads(page(proxy, "health"))["requests"]
    assert requests == {"last": 4, "failed": {"400": 1, "404": 1}}
    assert b'status="4xx",upstream' in page(proxy, "metrics").replace(b'outcome="complete",', b"")
    proxy.wait_for('  404 from llama-server at /v1/messages: "File Not Found"')
