"""Late system messages on the way to an upstream that cannot take them: placed, or healed."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from itertools import pairwise

import pytest

from tests.core.templates import RefusedError, as_user, chatml, drop, hoist, inline, strict, turns

from .harness import CHUNKED, Client, Proxy, Upstream, eventually, free_port, head, whole
from .templated import (
    PAGE,
    PATHS,
    REFUSAL,
    TOKENIZE,
    ModelServer,
    answer_of,
    put,
    renders,
    says,
    tokenizes,
)

WRAPPED = "<system-reminder>\nnews\n</system-reminder>"
LLAMA = {PAGE: renders}
MOST_QUESTIONS = 8
PAGES = [PAGE, TOKENIZE]


_of_this_test = {"model": "m"}


@pytest.fixture(autouse=True)
def model(request):
    """A model that no other test asks for, so that they can share a proxy."""
    _of_this_test["model"] = request.node.name
    return request.node.name


def late(api="messages", model=None, **more):
    """A body with a late system message."""
    model = model or _of_this_test["model"]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "and?"},
        {"role": "system", "content": "news"},
    ]
    if api == "messages":
        return {"model": model, "max_tokens": 9, "system": "head", "messages": messages} | more
    if api == "responses":
        return {"model": model, "instructions": "head", "input": messages} | more
    system = {"role": "system", "content": "head"}
    return {"model": model, "messages": [system, *messages]} | more


def spoken(body):
    return [m["role"] for m in body.get("messages") or body["input"]][-1]


def ask(proxy, body=None, api="messages", *fields, path=None):
    body = late(api) if body is None else body
    with Client(proxy.address) as client:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return client.ask(path or PATHS[api], data, *fields).answer()


@pytest.fixture
def start(tmp_path, upstream):
    """Start a proxy, which is new to the upstream, before a model server."""
    running = []

    def start(server, *arguments, **environ):
        put(upstream, server)
        running.append(Proxy(tmp_path, "--upstream", upstream.url, *arguments, **environ))
        return running[-1].__enter__()

    yield start
    for proxy in running:
        proxy.__exit__()
        assert "Traceback" not in proxy.output
        assert "critical" not in proxy.output


@pytest.fixture(scope="module")
def _shared(_upstream, tmp_path_factory):
    _upstream.reset()  # it must find no page when it starts
    with Proxy(tmp_path_factory.mktemp("placing"), "--upstream", _upstream.url) as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def shared(_shared, upstream):
    """A proxy for servers that render nothing for us."""
    return _shared


# Learning.


@pytest.mark.parametrize(
    ("template", "placed"), [(inline, 0), (as_user, 0), (hoist, 1), (strict, 1), (drop, 1)]
)
@pytest.mark.parametrize("page", PAGES)
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
    said = proxy.output.count("(said once; ")
    assert said == placed


def test_the_banner_the_page_and_the_log_say_it(start):
    """In words; and each line of a turn how many were placed."""
    proxy = start(ModelServer(strict, pages=LLAMA))
    words = "refuses late system messages: they go on as the user's, in their place"
    assert any(line.strip() == f"template    {words}" for line in proxy.lines)
    with urllib.request.urlopen(f"{proxy.url}/_cacheproxy/health", timeout=10) as page:
        placement = json.load(page)["placement"]
    assert (placement["late"], placement["says"], placement["setting"]) == (
        "refused",
        words,
        "auto",
    )
    mark = proxy.mark()
    ask(proxy)
    assert proxy.wait_for("(placed 1)", mark)


@pytest.mark.parametrize("api", PATHS)
def test_what_is_learned_counts_for_every_api(start, api):
    """The template is behind all of them."""
    server = ModelServer(strict, pages=LLAMA)
    proxy = start(server)
    server.paths()
    assert ask(proxy, api=api).status == 200
    assert spoken(server.bodies(PATHS[api])[0]) == "user"
    assert server.paths() == [PATHS[api]]


def test_a_request_without_late_messages_never_waits(start):
    """It is not looked at, whatever is known."""
    server = ModelServer(strict)
    proxy = start(server)
    server.paths()
    ask(proxy, {"model": "m", "system": "x", "messages": [{"role": "user", "content": "hi"}]})
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


def test_two_requests_at_once_learn_once(start):
    """The second waits for what the first learns."""
    server = ModelServer(drop)
    proxy = start(server)
    server.paths()
    clients = [Client(proxy.address) for _ in range(4)]
    for client in clients:
        client.ask(PATHS["messages"], json.dumps(late()).encode())
    assert [client.answer().status for client in clients] == [200] * 4
    assert sorted(server.paths()) == sorted([PAGE, TOKENIZE, *[PATHS["messages"]] * 6])
    for client in clients:
        client.close()


def test_two_requests_at_once_do_not_both_ask_a_server_that_does_not_tell(start):
    """Nor is it asked again soon."""
    server = ModelServer(drop, pages={PATHS["messages"]: says(whole(b"{}"))})
    proxy = start(server)
    server.paths()
    clients = [Client(proxy.address) for _ in range(3)]
    for client in clients:
        client.ask(PATHS["messages"], json.dumps(late()).encode())
    assert [client.answer().body for client in clients] == [b"{}"] * 3
    assert sorted(server.paths()) == sorted([PAGE, TOKENIZE, *[PATHS["messages"]] * 5])
    for client in clients:
        client.close()


def props(marker):
    """A page that says which server this is."""
    return {
        "default_generation_settings": {"n_ctx": 4096},
        "build_info": "b1-x",
        "total_slots": 1,
        "media_marker": marker,
    }


@pytest.fixture
def looked_at():
    """A llama-server that can be looked at, its script, and the looks."""
    server, looks = ModelServer(inline, pages=LLAMA), []

    def script(peer, received):
        path = received.line.split()[1]
        if path == b"/props":
            looks.append(path)
            status = b"500 For Once" if len(looks) % 4 == 3 else b"200 OK"
            server.send(peer, status, props(f"marker {server.template.__name__}"))
        elif path == b"/health":
            server.send(peer, b"200 OK", {"status": "ok"})
        else:
            server(peer, received)

    return server, script, looks


def test_a_look_at_the_server_that_finds_another_has_it_asked_again(start, looked_at):
    """Without a request having failed; while it is the same one, it is not asked.

    A page that fails now and then does not make it another.
    """
    server, script, looks = looked_at
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


def test_workers_are_told_that_there_is_another_server(start, looked_at):
    """One process looks; each that relays asks again."""
    server, script, looks = looked_at
    proxy = start(script, "--workers", "2", CACHEPROXY_POLL="0.05")
    for _ in range(8):
        assert ask(proxy).status == 200
    server.template = drop
    server.paths()
    eventually(lambda: len(server.asked) >= 6)
    seen = len(looks)
    eventually(lambda: len(looks) > seen + 3)
    server.paths()
    for _ in range(8):
        assert ask(proxy).status == 200
    assert {spoken(body) for body in server.bodies(PATHS["messages"])} == {"user"}


# Pages that are none.

NO_PAGES = {
    "missing": None,
    "other text": says(whole(b'{"prompt":"I render nothing"}')),
    "no JSON": says(whole(b"<html>cacheproxy-one cacheproxy-two cacheproxy-three</html>")),
    "another shape": says(whole(b"[[[[]]]]")),
    "deep": says(whole(b"[" * 50_000)),
    "4 MB": says(whole(b'{"prompt":"' + b"x" * (4 << 20) + b'"}')),
    "6 MB": says(whole(b'{"prompt":"' + b"x" * (6 << 20) + b'"}')),
    "an error": says(whole(b"{}", status=b"500 Internal Server Error")),
    "a key": says(whole(b"{}", status=b"401 Unauthorized")),
    "nothing": says(b""),
    "half": says(head(b"Content-Length: 100") + b"{"),
    "no HTTP": says(b"\x15\x03\x01\x00\x02\x02\x16"),
    "slow": lambda _, peer, *__: peer.wait_closed(),
}


@pytest.mark.parametrize("page", NO_PAGES.values(), ids=NO_PAGES)
def test_a_page_that_does_not_tell_costs_nothing_but_its_time(shared, upstream, page):
    """The short prompts tell then, and the next request asks nobody."""
    pages = {} if page is None else {PAGE: page}
    server = put(upstream, ModelServer(drop, pages=pages))
    assert ask(shared).status == 200
    assert spoken(server.bodies(PATHS["messages"])[-1]) == "user"
    assert set(server.paths()) == {*PAGES, PATHS["messages"]}
    assert ask(shared).status == 200
    assert server.paths() == [PATHS["messages"]]


def test_a_page_that_wants_a_key_gets_that_of_the_request(start):
    """We have none ourselves."""

    def guarded(server, peer, received, body):
        if received.values(b"authorization") == [b"Bearer key"]:
            renders(server, peer, received, body)
        else:
            server.send(peer, b"401 Unauthorized", {})

    server = ModelServer(strict, pages={PAGE: guarded})
    proxy = start(server)
    assert server.paths() == PAGES
    assert ask(proxy, None, "messages", b"Authorization: Bearer key").status == 200
    paths = server.paths()
    assert paths[-1:] == [PATHS["messages"]]
    assert set(paths[:-1]) == {PAGE}


def test_a_router_is_asked_for_each_model(start):
    """One page for several models: what is true of one is not of another."""
    templates = {"one": strict, "two": inline}

    def routed(server, peer, received, body):
        if body.get("model") not in templates:
            server.send(peer, b"400 Bad Request", {"error": {"message": "model is missing"}})
            return
        server.template = templates[body["model"]]
        renders(server, peer, received, body)

    server = ModelServer(strict, pages={PAGE: routed})
    proxy = start(server)
    server.paths()
    for _ in range(2):
        for model, role in (("one", "user"), ("two", "system")):
            server.template = templates[model]
            ask(proxy, late(model=model))
            assert spoken(server.bodies(PATHS["messages"])[-1]) == role
    assert server.paths().count(PAGE) <= 2 * (MOST_QUESTIONS + 1)


# Short prompts.


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize(
    ("template", "role"),
    [
        (inline, "system"),
        (hoist, "user"),
        (drop, "user"),
        (strict, "user"),
    ],
)
def test_two_short_prompts_tell_what_no_page_does(
    shared, upstream, *, template, role, api, reports
):
    """In the client's API; the request goes on after them, and later ones alone."""
    server = put(upstream, ModelServer(template, reports=reports))
    body = late(api)
    assert ask(shared, body, api, b"X-Api-Key: key").status == 200
    assert server.asked[2][1].get("stream") is False
    assert all(raw.values(b"x-api-key") == [b"key"] for raw in server.raw)
    assert spoken(server.bodies(PATHS[api])[-1]) == role
    assert server.paths() == [*PAGES, *[PATHS[api]] * 3]
    if role == "system":
        assert server.raw[-1].body == json.dumps(body).encode()
    assert ask(shared, body, api).status == 200
    assert server.paths() == [PATHS[api]]


def test_each_inquiry_has_a_head_of_its_own(shared, upstream, model):
    """Else the cache would answer for a prompt of before."""
    server = put(upstream, ModelServer(drop))
    heads = []
    for name in ("a", "b"):
        ask(shared, late(model=f"{model} {name}"))
        heads += [body["system"] for body in server.bodies(PATHS["messages"])]
        server.paths()
    assert len(set(heads)) == 3
    assert heads[0] == heads[1] != heads[3] == heads[4]


def test_templates_that_want_turns_are_told_by_a_refusal_of_what_was_placed(shared, upstream):
    """The text joins its neighbour from the first request on."""
    server = put(upstream, ModelServer(turns))
    assert ask(shared).status == 200
    body = server.bodies(PATHS["messages"])[-1]
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][-1]["content"] == f"and?\n\n{WRAPPED}"


@pytest.mark.parametrize("status", [b"503 Service Unavailable", b"429 Too Many Requests"])
def test_a_busy_server_is_not_asked_again_at_once(shared, upstream, status):
    """The request goes on as it came, and gets the answer that it would have got."""
    answer = whole(b'{"busy":true}', b"Retry-After: 7", status=status)
    server = put(upstream, ModelServer(drop, pages={PATHS["messages"]: says(answer)}))
    for expected in ([*PAGES, *[PATHS["messages"]] * 2], [PATHS["messages"]]):
        found = ask(shared)
        assert (found.status, found.values(b"retry-after")) == (int(status[:3]), [b"7"])
        assert server.raw[-1].body == json.dumps(late()).encode()
        assert server.paths() == expected


def test_more_models_than_are_remembered(shared, upstream, model):
    """A client may name as many as it likes; each is asked for at most once more."""
    server = put(upstream, ModelServer(drop))
    for number in range(70):
        assert ask(shared, late(model=f"{model} {number}")).status == 200
    server.paths()
    ask(shared, late(model=f"{model} 69"))
    assert server.paths() == [PATHS["messages"]]
    ask(shared, late(model=f"{model} 0"))
    assert server.paths() == [*PAGES, *[PATHS["messages"]] * 3]


# Settings.


@pytest.mark.parametrize("template", [drop, strict])
def test_off_asks_and_places_nothing(start, template):
    """The client gets what the server says."""
    server = ModelServer(template, pages=LLAMA)
    proxy = start(server, "--placement", "off")
    answer = ask(proxy)
    assert answer.status == (400 if template is strict else 200)
    assert server.paths() == [PATHS["messages"]]
    assert server.raw[-1].body == json.dumps(late()).encode()


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


def test_user_places_always_and_asks_nobody(start):
    """Where a template wants turns, its refusal tells that much."""
    server = ModelServer(inline, pages=LLAMA)
    proxy = start(server, "--placement", "user")
    ask(proxy)
    assert spoken(server.bodies(PATHS["messages"])[-1]) == "user"
    assert server.paths() == [PATHS["messages"]]


def test_a_vendors_api_is_neither_asked_nor_edited(tmp_path, upstream):
    """Unless edits were asked for; 127.1 is no local name."""
    server = put(upstream, ModelServer(strict, pages=LLAMA))
    with Proxy(tmp_path, "--upstream", f"http://127.1:{upstream.port}") as proxy:
        answer = ask(proxy)
        assert (answer.status, json.loads(answer.body)) == (400, REFUSAL)
        assert server.paths() == [PATHS["messages"]]
        assert server.raw[-1].body == json.dumps(late()).encode()


# A refusal, and the second attempt.


@pytest.fixture(scope="module")
def _quiet(_upstream, tmp_path_factory):
    _upstream.reset()  # it must find no page when it starts
    folder = tmp_path_factory.mktemp("quiet")
    with Proxy(folder, "--upstream", _upstream.url, "--placement", "quiet") as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def quiet(_quiet, upstream):
    """A proxy that learns by refusals alone, before a server without pages; returns both."""
    return _quiet, put(upstream, ModelServer(strict))


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_is_healed_within_the_request(quiet, api, stream):
    """By one more attempt, which the client does not see; the next needs none."""
    proxy, server = quiet
    server.paths()
    answer = ask(proxy, late(api, stream=stream), api)
    assert (answer.status, answer.end) == (200, "whole")
    assert b"System message" not in answer.body
    first, second = server.bodies(PATHS[api])
    assert (spoken(first), spoken(second)) == ("system", "user")
    server.paths()
    mark = proxy.mark()
    assert ask(proxy, late(api, stream=stream), api).status == 200
    assert server.paths() == [PATHS[api]]
    proxy.wait_for("(placed 1)", mark)


def test_a_change_of_the_template_between_two_turns_heals(start):
    """The page is asked again, and what it says now counts."""
    server = ModelServer(inline, pages=LLAMA)
    proxy = start(server)
    assert ask(proxy).status == 200
    for template, last in ((strict, "user"), (turns, "user")):
        server.paths()
        server.template = template
        assert ask(proxy).status == 200
        assert spoken(server.bodies(PATHS["messages"])[-1]) == last
        paths = server.paths()
        assert paths.count(PATHS["messages"]) == 2
        assert ask(proxy).status == 200
        assert server.paths() == [PATHS["messages"]]


def test_what_is_refused_a_second_time_comes_down_once(quiet):
    """The client sees the second answer alone, and the guess is not believed."""
    proxy, server = quiet
    count = []

    def refuse(server, peer, *_):
        count.append(1)
        server.send(peer, b"400 Bad Request", REFUSAL | {"number": len(count)})

    server.pages[PATHS["messages"]] = refuse
    for number in (2, 4):
        server.paths()
        answer = ask(proxy)
        assert (answer.status, json.loads(answer.body)["number"]) == (400, number)
        assert [spoken(body) for body in server.bodies(PATHS["messages"])] == ["system", "user"]
    server.pages.clear()
    server.template = inline
    ask(proxy)
    assert spoken(server.asked[-1][1]) == "system"


def test_a_second_refusal_that_asks_for_turns_is_learned_from(quiet):
    """The request after it has none."""
    proxy, server = quiet

    def alternate(messages, tools=None):
        roles = [m["role"] for m in messages if m["role"] != "system"]
        if any(one == other for one, other in pairwise(roles)):
            raise ValueError
        return strict(messages, tools)

    def answer(server, peer, _, body):
        try:
            alternate([{"role": "system", "content": "h"}, *body["messages"]])
        except RefusedError:
            server.send(peer, b"400 Bad Request", REFUSAL)
        except ValueError:
            words = "conversation roles must alternate user/assistant/user/assistant/..."
            server.send(peer, b"400 Bad Request", {"error": {"message": words}})
        else:
            server.send(peer, b"200 OK", answer_of("messages", 9, None))

    server.pages[PATHS["messages"]] = answer
    assert ask(proxy).status == 400
    server.paths()
    assert ask(proxy).status == 200
    assert ask(proxy).status == 200
    assert server.paths()[-1:] == [PATHS["messages"]]


LONG = b'{"error":{"message":"System message must be at the beginning.' + b" " * 70_000 + b'"}}'
KEPT = (b"X-Odd:  two  spaces", b"Content-Type: text/weird", b"X-Odd: again")
OTHER = b'{"error":{"message":"the request exceeds the available context size"}}'
CHUNKS = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
GZIPPED = bytes.fromhex("1f8b08000000000002ff") + json.dumps(REFUSAL).encode()


@pytest.mark.parametrize("status", [b"400 Odd Reason", b"404 Not Found", b"422 X", b"500 Y"])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (whole(OTHER, *KEPT), OTHER),
        (
            head(*KEPT, b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            b"hello world",
        ),
        (head(*KEPT) + OTHER, OTHER),
        (whole(GZIPPED, *KEPT, b"Content-Encoding: gzip"), GZIPPED),
        (whole(LONG, *KEPT), LONG),
        (head(*KEPT) + LONG, LONG),
        (whole(b"", *KEPT), b""),
    ],
    ids=["whole", "chunked", "until closed", "packed", "long", "long until closed", "empty"],
)
def test_any_other_error_comes_down_as_it_is_and_is_not_tried_again(quiet, status, answer, body):
    """Byte for byte with its headers, once."""
    proxy, server = quiet
    server.apis = ()  # a 404 has the proxy look for another API
    answer = answer.replace(b"200 OK", status, 1)
    server.pages[PATHS["chat"]] = says(answer)
    found = ask(proxy, api="chat")
    assert (found.status, found.reason) == (int(status[:3]), status[4:])
    assert found.body == body
    assert found.end == "whole"
    assert found.values(b"x-odd") == [b"two  spaces", b"again"]
    assert found.values(b"content-type") == [b"text/weird"]
    assert len([body for body in server.bodies(PATHS["chat"]) if body]) == 1


def test_an_error_that_breaks_off_breaks_off(quiet):
    """The client is not told that it had all of it."""
    proxy, server = quiet
    server.pages[PATHS["messages"]] = says(
        head(b"Content-Length: 100", status=b"400 Bad Request") + b"half"
    )
    answer = ask(proxy)
    assert (answer.status, answer.body) == (400, b"half")
    assert answer.end in ("fin", "rst")
    assert len(server.bodies(PATHS["messages"])) == 1


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"429 Slow", b"502 Bad", b"503 Busy"])
def test_other_statuses_are_no_refusal(quiet, status):
    """Whatever their words are."""
    proxy, server = quiet
    server.pages[PATHS["messages"]] = says(whole(json.dumps(REFUSAL).encode(), status=status))
    answer = ask(proxy)
    assert (answer.status, json.loads(answer.body)) == (int(status[:3]), REFUSAL)
    assert len(server.bodies(PATHS["messages"])) == 1


def test_without_late_messages_a_refusal_is_the_clients(quiet):
    """There is nothing to place."""
    proxy, server = quiet
    server.pages[PATHS["messages"]] = says(whole(b"System message must be first", status=b"400 X"))
    body = {"model": "m", "system": "x", "messages": [{"role": "user", "content": "hi"}]}
    assert ask(proxy, body).body == b"System message must be first"
    assert len(server.bodies(PATHS["messages"])) == 1


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


def half_an_error(server, peer, *_):
    peer.send(head(b"Content-Length: 100", status=b"400 Bad Request") + b'{"error":')
    held(server, peer)


@pytest.mark.parametrize("when", ["held error", "second attempt"])
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_client_that_leaves_during_the_attempts(quiet, when, how):
    """Closes the upstream at once, and there is no further attempt."""
    proxy, server = quiet
    server.closed, begun = [], threading.Event()

    def refuse(server, peer, _, body):
        if when == "held error":
            begun.set()
            half_an_error(server, peer)
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


@pytest.mark.parametrize("pages", [{}, LLAMA], ids=["no page", "page"])
@pytest.mark.parametrize(
    ("template", "role"), [(inline, "system"), (strict, "user"), (hoist, "user"), (drop, "user")]
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


def test_tokens_are_counted_of_what_will_be_sent(start):
    """A strict server would refuse to count, too."""
    server = ModelServer(strict, pages=LLAMA)
    path = "/v1/messages/count_tokens"
    server.pages[path] = lambda server, peer, _, body: server.send(
        peer, *((b"200 OK", {"input_tokens": 7}) if spoken(body) == "user" else (b"400 X", REFUSAL))
    )
    proxy = start(server)
    server.paths()
    assert json.loads(ask(proxy, path=path).body) == {"input_tokens": 7}
    assert server.paths() == [path]


# Whatever comes, the request goes on.

NEWS = {"role": "system", "content": "news"}
ODD = [
    {"messages": [NEWS] * 3},
    {"messages": [NEWS, NEWS, {"role": "user", "content": "hi"}]},
    {"system": "", "messages": [NEWS, NEWS]},
    {"system": [], "messages": [{"role": "user", "content": "hi"}, NEWS | {"content": []}]},
    {"system": "x", "messages": [{"role": "user", "content": "hi"}, {"role": "system"}]},
    {"system": "x", "messages": [{"role": "user", "content": "hi"}, NEWS | {"content": None}]},
    {"system": "x", "messages": [NEWS, None, 7, "text", [], {}]},
    {"model": 7, "system": "x", "messages": [{"role": "user", "content": "hi"}, NEWS]},
    {"system": "x", "messages": [{"role": "user", "content": "hi"}, *[NEWS] * 300]},
]


@pytest.mark.parametrize("template", [strict, turns, hoist])
def test_an_odd_body_gets_the_servers_answer(start, template):
    """Whatever that is: never one of our own."""
    server = ModelServer(template, pages=LLAMA)
    proxy = start(server)
    server.pages[PATHS["messages"]] = says(whole(b"mine", status=b"418 Teapot"))
    for body in ODD:
        server.paths()
        answer = ask(proxy, body)
        assert (answer.status, answer.body) == (418, b"mine")
        assert server.paths() == [PATHS["messages"]]


def test_a_text_with_half_a_character_goes_on(start):
    """As a truncated tool output has it, in the message that is placed."""
    server = ModelServer(strict, pages=LLAMA)
    proxy = start(server)
    body = json.dumps(late()).replace("news", "ne\\ud83dws")
    assert ask(proxy, body.encode()).status == 200
    assert b"\\nne\\ud83dws\\n" in server.raw[-1].body


def test_a_stream_flows_through_a_placed_request(start):
    """Event by event."""
    go_on = threading.Event()

    def stream(_server, peer, *_):
        peer.send(CHUNKED)
        peer.chunk(b"data: 1\n\n")
        assert go_on.wait(10)
        peer.chunk(b"data: 2\n\n")
        peer.send(b"0\r\n\r\n")

    server = ModelServer(strict, pages=LLAMA | {PATHS["messages"]: stream})
    proxy = start(server)
    with Client(proxy.address) as client:
        client.ask(PATHS["messages"], json.dumps(late(stream=True)).encode())
        pieces = client.pieces(client.begin())
        assert next(pieces) == b"data: 1\n\n"
        go_on.set()
        assert b"".join(pieces) == b"data: 2\n\n"


def test_workers_place_as_one_process_does(start):
    """Each learns for itself, with the first late message that it gets."""
    server = ModelServer(strict, pages=LLAMA)
    proxy = start(server, "--workers", "2")
    for _ in range(8):
        assert ask(proxy).status == 200
    assert {spoken(body) for body in server.bodies(PATHS["messages"])} == {"user"}
    assert server.paths().count(PAGE) <= 3 * MOST_QUESTIONS


def test_the_text_of_a_prompt_stays_out_of_the_log(start):
    """Neither ours nor a server's words about it."""
    server = ModelServer(strict, pages=LLAMA)
    proxy = start(server, "--verbose")
    body = late()
    body["messages"][-1]["content"] = "kanarienvogel"
    ask(proxy, body)
    proxy.wait_for("late-system-messages: /messages/3/role")
    assert "kanarienvogel" not in proxy.output
    assert chatml([]) == "null"
