"""A server is asked by its page, or else by two short prompts; the request goes on in any case."""

import json

import pytest

from tests.core.templates import drop, hoist, inline, strict, turns
from tests.proxy.harness import head, whole

from .bodies import MOST_QUESTIONS, PAGES, WRAPPED, ask, late, spoken
from .templated import PAGE, PATHS, ModelServer, put, renders, says

# Pages that are none.

NO_PAGES = {
    "missing": None,
    "other text": says(whole(b'{"prompt":"I render nothing"}')),
    "no JSON": says(whole(b"<html>cacheproxy-one cacheproxy-two cacheproxy-three</html>")),
    "6 MB": says(whole(b'{"prompt":"' + b"x" * (6 << 20) + b'"}')),
    "an error": says(whole(b"{}", status=b"500 Internal Server Error")),
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


@pytest.mark.parametrize(
    ("template", "role", "api", "reports"),
    [
        (inline, "system", "messages", True),
        (inline, "system", "ollama", False),
        (hoist, "user", "chat", True),
        (hoist, "user", "messages", False),
        (drop, "user", "responses", True),
        (strict, "user", "ollama", True),
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
    """A client may name as many as it likes; each is asked for at most once more.

    Each inquiry has a head of its own: else the cache would answer for a prompt of before.
    """
    server = put(upstream, ModelServer(drop))
    for number in range(70):
        assert ask(shared, late(model=f"{model} {number}")).status == 200
    heads = [body["system"] for body in server.bodies(PATHS["messages"])]
    assert heads[0] == heads[1] != heads[3] == heads[4]
    server.paths()
    ask(shared, late(model=f"{model} 69"))
    assert server.paths() == [PATHS["messages"]]
    ask(shared, late(model=f"{model} 0"))
    assert server.paths() == [*PAGES, *[PATHS["messages"]] * 3]
