"""What an upstream does with late system messages is learned once, and again from another."""

import json
import socket

import pytest

from tests.core.templates import as_user, drop, hoist, inline, strict
from tests.proxy.harness import Client, Proxy, Upstream, eventually, free_port, whole

from .bodies import LLAMA, MOST_QUESTIONS, PAGES, WITHOUT, ask, late, spoken
from .templated import PAGE, PATHS, REFUSAL, TOKENIZE, ModelServer, put, renders, says, tokenizes

pytestmark = pytest.mark.slow

# Learning.


@pytest.mark.parametrize(
    ("template", "placed", "page"),
    [(as_user, 0, PAGE), (hoist, 1, PAGE), (inline, 0, TOKENIZE), (drop, 1, TOKENIZE)],
)
def test_a_server_that_renders_is_asked_once_when_we_start(start, template, placed, page):
    """No request waits for it: one in, one out; where it does no harm not a byte is edited."""
    pages = {PAGE: {PAGE: renders}, TOKENIZE: {TOKENIZE: tokenizes}}[page]
    server = ModelServer(template, pages=pages)
    proxy = start(server)
    asked = server.paths()
    assert set(asked) - {PAGE} == ({TOKENIZE} if page == TOKENIZE else set())
    assert len(asked) <= MOST_QUESTIONS + 2
    api = "chat" if page == TOKENIZE else "messages"
    body = json.dumps(late(api), indent=1).encode()
    for _ in range(2):
        assert ask(proxy, body, api).status == 200
    assert server.paths() == [PATHS[api]] * 2
    for received in server.raw[-2:]:
        assert (received.body == body) == (not placed)
        assert received.body.count(b"system-reminder") == 2 * placed
    proxy.mark()
    said = proxy.output.count("(logged once; ")
    assert said == placed


def test_the_banner_the_page_and_the_log_say_it(knowing):
    """In words; and each line of a turn how many were placed."""
    proxy, _ = knowing
    words = "refuses late system messages: the proxy sends them as user messages, in their place"
    assert any(line.strip() == f"template    {words}" for line in proxy.lines)
    placement = proxy.page("health")["placement"]
    said = [placement[name] for name in ("late", "says", "setting")]
    assert said == ["refused", words, "auto"]
    mark = proxy.mark()
    ask(proxy)
    assert proxy.wait_for("(placed 1 late system message)", mark)


def test_what_is_learned_counts_for_every_api(knowing):
    proxy, server = knowing
    for api, path in PATHS.items():
        server.paths()
        assert ask(proxy, api=api).status == 200
        assert spoken(server.bodies(path)[0]) == "user"
        assert server.paths() == [path]


def test_a_request_without_late_messages_never_waits(start):
    server = ModelServer(strict)
    proxy = start(server)
    server.paths()
    ask(proxy, WITHOUT)
    assert server.paths() == [PATHS["messages"]]


def test_a_server_that_was_down_is_asked_when_the_first_late_message_comes(tmp_path):
    """And again when it was down since, and is another."""
    port = free_port()
    with Proxy(tmp_path, "--upstream", f"http://127.0.0.1:{port}") as proxy:
        for template, role in ((strict, "user"), (inline, "system"), (drop, "user")):
            assert ask(proxy).status == 502
            upstream = Upstream(socket.create_server(("127.0.0.1", port)))
            server = put(upstream, ModelServer(template, pages=LLAMA))
            for _ in range(2):
                assert ask(proxy).status == 200
            assert {spoken(body) for body in server.bodies(PATHS["messages"])} == {role}
            paths = server.paths()
            assert paths[-2:] == [PATHS["messages"]] * 2
            assert set(paths[:-2]) == {PAGE}
            assert len(paths) <= MOST_QUESTIONS + 2
            upstream.close()
            eventually(lambda: ask(proxy).status == 502)


@pytest.mark.parametrize("tells", [True, False])
def test_requests_at_once_learn_once(start, tells):
    """The others wait for what the first learns; who does not tell is not asked again soon."""
    server = ModelServer(drop, pages={} if tells else {PATHS["messages"]: says(whole(b"{}"))})
    proxy = start(server)
    server.paths()
    clients = [Client(proxy.address) for _ in range(4)]
    for client in clients:
        client.ask(PATHS["messages"], json.dumps(late()).encode())
    assert [client.answer().status for client in clients] == [200] * 4
    assert sorted(server.paths()) == sorted([PAGE, TOKENIZE, *[PATHS["messages"]] * 6])
    for client in clients:
        client.close()


def test_a_look_at_the_server_that_finds_another_has_it_asked_again(start):
    """Without a request having failed; while it is the same one, it is not asked.

    A page that fails now and then does not make it another.
    """
    server, looks = ModelServer(inline, pages=LLAMA), []

    def script(peer, received):
        path = received.line.split()[1]
        if path == b"/props":
            looks.append(path)
            status = b"500 For Once" if len(looks) % 4 == 3 else b"200 OK"
            props = {"default_generation_settings": {}, "media_marker": f"{server.template}"}
            server.send(peer, status, props)
        elif path == b"/health":
            server.send(peer, b"200 OK", {"status": "ok"})
        else:
            server(peer, received)

    proxy = start(script, CACHEPROXY_POLL="0.05")
    eventually(lambda: len(looks) > 9)
    assert len(server.paths()) <= MOST_QUESTIONS
    server.template = drop
    eventually(lambda: len(server.asked) >= 6)
    seen = len(looks)
    eventually(lambda: len(looks) > seen + 3)
    assert set(server.paths()) == {PAGE}
    ask(proxy)
    assert spoken(server.bodies(PATHS["messages"])[0]) == "user"
    assert server.paths() == [PATHS["messages"]]


# Settings.


@pytest.mark.parametrize(("setting", "status"), [("off", 400), ("user", 200)])
def test_off_places_nothing_and_user_always_and_nobody_is_asked(start, setting, status):
    """With off, the client gets what the server says."""
    server = ModelServer(strict, pages=LLAMA)
    proxy = start(server, "--placement", setting)
    assert ask(proxy).status == status
    assert server.paths() == [PATHS["messages"]]
    is_placed = b"system-reminder" in server.raw[-1].body
    assert is_placed == (server.raw[-1].body != json.dumps(late()).encode()) == (setting == "user")


def test_quiet_sends_no_prompts_of_its_own(start):
    """Pages are asked, and a refusal tells."""
    server = ModelServer(drop)
    proxy = start(server, "--placement", "quiet")
    assert server.paths() == PAGES
    ask(proxy)
    assert server.paths() == [*PAGES, PATHS["messages"]]
    server.template = strict
    for expected in ([PATHS["messages"]] * 2, [PATHS["messages"]]):
        assert ask(proxy).status == 200
        assert server.paths() == expected


def test_a_vendors_api_is_neither_asked_nor_edited(tmp_path, upstream):
    """Unless edits were asked for; 127.1 is no local name."""
    server = put(upstream, ModelServer(strict, pages=LLAMA))
    with Proxy(tmp_path, "--upstream", f"http://127.1:{upstream.port}") as proxy:
        answer = ask(proxy)
        assert (answer.status, json.loads(answer.body)) == (400, REFUSAL)
        assert server.paths() == [PATHS["messages"]]
        assert server.raw[-1].body == json.dumps(late()).encode()
