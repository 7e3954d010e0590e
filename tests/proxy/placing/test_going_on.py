"""Whoever leaves, whatever comes, and whichever API is spoken: the request goes its way."""

import json
import threading

import pytest

from tests.core.templates import drop, hoist, inline, strict
from tests.proxy.harness import CHUNKED, Client, eventually, head, whole

from .bodies import LLAMA, ask, late, spoken
from .templated import PAGE, PATHS, REFUSAL, ModelServer, says

# The client leaves.


def held(server, peer, *_):
    """Say nothing until the other side closes."""
    server.closed.append(peer.wait_closed())


@pytest.mark.parametrize("where", ["page", "short prompt"])
def test_a_client_that_leaves_while_we_learn_lets_the_next_one_learn(start, where):
    """The upstream's connection closes at once."""
    server = ModelServer(drop)
    server.closed = []
    proxy = start(server)
    server.paths()
    path = PAGE if where == "page" else PATHS["messages"]
    server.pages[path] = held
    client = Client(proxy.address)
    client.ask(PATHS["messages"], json.dumps(late()).encode())
    eventually(lambda: server.bodies(path))
    with Client(proxy.address) as other:
        other.ask(PATHS["messages"], json.dumps(late()).encode())
        del server.pages[path]
        client.close()
        eventually(lambda: server.closed)
        assert server.closed == [True]
        assert other.answer().status == 200
    assert spoken(server.asked[-1][1]) == "user"


def half_an_error(peer):
    peer.send(head(b"Content-Length: 100", status=b"400 Bad Request") + b'{"error":')


@pytest.mark.parametrize(("when", "how"), [("held error", "rst"), ("second attempt", "fin")])
def test_a_client_that_leaves_during_the_attempts(quiet, when, how):
    """Closes the upstream at once, and there is no further attempt."""
    proxy, server = quiet
    server.closed, begun = [], threading.Event()

    def refuse(server, peer, _, body):
        if when == "held error":
            half_an_error(peer)  # before the client may leave: then there is nobody to send it to
            begun.set()
            held(server, peer)
        elif spoken(body) == "system":
            server.send(peer, b"400 Bad Request", REFUSAL)
        else:
            begun.set()
            held(server, peer)

    server.pages[PATHS["messages"]] = refuse
    mark = proxy.mark()
    client = Client(proxy.address).ask(PATHS["messages"], json.dumps(late()).encode())
    assert begun.wait(10)
    client.leave(how)
    eventually(lambda: server.closed)
    assert server.closed == [True]
    proxy.wait_for("CLIENT LEFT", mark)
    assert len(server.bodies(PATHS["messages"])) == (1 if when == "held error" else 2)


# Behind translation, and counting.


@pytest.mark.parametrize(
    ("template", "role", "pages"),
    [(inline, "system", {}), (strict, "user", {}), (hoist, "user", {}), (drop, "user", LLAMA)],
)
def test_a_server_of_the_other_api(start, template, role, pages):
    """That there is such a server, and what it does, is learned within the first request."""
    server = ModelServer(template, pages=dict(pages), apis=("chat",))
    proxy = start(server)
    for _ in range(2):
        answer = ask(proxy)
        assert answer.status == 200
        assert json.loads(answer.body)["type"] == "message"
        assert spoken(server.bodies(PATHS["chat"])[-1]) == role
    server.paths()
    ask(proxy)
    assert server.paths() == [PATHS["chat"]]


def test_a_refusal_behind_translation_heals_too(start):
    """And an error that cannot be healed comes in the client's form."""
    server = ModelServer(strict, apis=("chat",))
    proxy = start(server, "--placement", "quiet", "--dialect", "openai")
    server.paths()
    assert json.loads(ask(proxy).body)["type"] == "message"
    assert [spoken(body) for body in server.bodies(PATHS["chat"])] == ["system", "user"]
    error = json.dumps({"error": {"message": "too long"}}).encode()
    server.pages[PATHS["chat"]] = says(whole(error, status=b"400 Bad Request"))
    answer = ask(proxy)
    assert (answer.status, json.loads(answer.body)["type"]) == (400, "error")
    assert json.loads(answer.body)["error"]["message"] == "too long"


def test_tokens_are_counted_of_what_will_be_sent(knowing):
    """A strict server would refuse to count, too."""
    proxy, server = knowing
    path = "/v1/messages/count_tokens"
    server.pages[path] = lambda server, peer, _, body: server.send(
        peer, *((b"200 OK", {"input_tokens": 7}) if spoken(body) == "user" else (b"400 X", REFUSAL))
    )
    assert json.loads(ask(proxy, path=path).body) == {"input_tokens": 7}
    assert server.paths() == [path]


# Whatever comes, the request goes on.


def test_a_stream_flows_through_a_placed_request(knowing):
    go_on = threading.Event()

    def stream(_server, peer, *_):
        peer.send(CHUNKED)
        peer.chunk(b"data: 1\n\n")
        assert go_on.wait(10)
        peer.chunk(b"data: 2\n\n")
        peer.send(b"0\r\n\r\n")

    proxy, server = knowing
    server.pages[PATHS["messages"]] = stream
    with Client(proxy.address) as client:
        client.ask(PATHS["messages"], json.dumps(late(stream=True)).encode())
        pieces = client.pieces(client.begin())
        assert next(pieces) == b"data: 1\n\n"
        go_on.set()
        assert b"".join(pieces) == b"data: 2\n\n"
    assert spoken(server.bodies(PATHS["messages"])[0]) == "user"


def test_the_text_of_a_prompt_stays_out_of_the_log(knowing):
    """Neither ours nor a server's words about it."""
    proxy, server = knowing
    body = json.dumps(late()).replace("news", "kanarien\\ud83dvogel")
    assert ask(proxy, body.encode()).status == 200
    # half a character, as a truncated tool output has it, goes on
    assert b"\\nkanarien\\ud83dvogel\\n" in server.raw[-1].body
    proxy.wait_for("late-system-messages: /messages/3/role")
    assert "kanarien" not in proxy.output
