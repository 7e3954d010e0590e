"""A request that the upstream turns down: the client hears it whole, the log in one line."""

import json
import threading

import pytest

from cacheproxy.core.adapt.refusal import WITHHELD
from tests.observe.exchanges import body

from .harness import Proxy, eventually, head, whole

JSON = b"Content-Type: application/json"
SESSION = b"X-Session-Id: refused1"
TYPED = "the green kingfisher brings a worm or two to its chicks in the hole of the river bank"
MESSAGES, CHAT, OLLAMA = "/v1/messages", "/v1/chat/completions", "/api/chat"


def turned_down(error, status=b"400 Bad Request"):
    return whole(json.dumps(error).encode(), JSON, b"Server: llama.cpp", status=status)


def say(client, path=MESSAGES):
    return client.ask(path, json.dumps(body(TYPED)).encode(), SESSION)


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
    heard = say(connect(), path=path).answer()
    assert (heard.status, heard.body) == (400, answer.partition(b"\r\n\r\n")[2])
    line = proxy.wait_for("refused1"[:4], mark)
    assert line.endswith('  400 from llama-server: "no such slot"')


def test_nothing_of_the_request_is(connect, respond, proxy):
    """Though the server repeats it, in the message and beside it."""
    respond(turned_down({"error": {"message": f"cannot read {TYPED}", "input": TYPED}}))
    mark = proxy.mark()
    say(connect()).answer()
    assert proxy.wait_for("refu", mark).endswith(f"  400 from llama-server: {WITHHELD}")
    assert TYPED[:20] not in proxy.output


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
    client = say(connect())
    pieces = client.pieces(client.begin())
    assert next(pieces) == start
    client_has_start.set()
    assert b"".join(pieces) == rest
    assert proxy.wait_for("refu", mark).endswith('  500 from the upstream: "no such slot"')


def test_it_is_no_turn(upstream, respond, tmp_path):
    """The next one is compared with the last that was answered; the failed are counted."""

    def answered(evaluated, reused):
        usage = {"input_tokens": evaluated, "cache_read_input_tokens": reused, "output_tokens": 1}
        return whole(json.dumps({"type": "message", "usage": usage}).encode(), JSON)

    refused = turned_down({"error": {"message": "no such slot"}})
    gone = turned_down({"error": {"message": "File Not Found"}}, b"404 Not Found")
    turns = [
        (answered(900, 0), ("a" * 3000,)),
        (refused, ("a" * 3000, "b", "c")),
        (gone, ("other",)),
        (answered(10, 900), ("a" * 3000, "b", "d")),
    ]
    with Proxy(tmp_path, "--upstream", upstream.url) as proxy:
        for answer, said in turns:
            respond(answer)
            proxy.ask(MESSAGES, json.dumps(body(*said)).encode(), SESSION)
        eventually(lambda: len(proxy.page("exchanges")["exchanges"]) == len(turns))
        found = proxy.page("exchanges")["exchanges"]
        assert [(one["turn"], one["verdict"], one["error"]) for one in found] == [
            (1, "cold", None),
            (0, None, "no such slot"),
            (0, None, "File Not Found"),
            (2, "ok", None),
        ]
        assert proxy.page("diagnose/last")["number"] == found[3]["number"]
        why = proxy.page(f"diagnose/{found[1]['number']}")["error"]
        assert why.endswith("failed with status 400 (no such slot): the server evaluated nothing")
        requests = proxy.page("health")["requests"]
        assert requests == {"last": 4, "failed": {"400": 1, "404": 1}}
        metrics = proxy.ask("/_cacheproxy/metrics", None, method=b"GET").body
        assert b'status="4xx",upstream' in metrics.replace(b'outcome="complete",', b"")
        proxy.wait_for('  404 from llama-server at /v1/messages: "File Not Found"')
