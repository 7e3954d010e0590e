"""What the proxy learns of an upstream, and what it does not take for a fact."""

import json
from functools import partial

import pytest

from tests.core.templates import RefusedError, inline, strict, thinking
from tests.proxy.harness import Proxy, eventually, whole
from tests.proxy.placing.bodies import late
from tests.proxy.placing.templated import PAGE, PATHS, ModelServer, renders, says

STATUS = {
    "/health": {"status": "ok"},
    "/v1/models": {"data": [{"id": "qwen", "owned_by": "llamacpp"}]},
    "/slots": [{"id": 0, "n_ctx": 4096, "is_processing": False}],
    "/props": {
        "default_generation_settings": {"n_ctx": 4096},
        "total_slots": 1,
        "build_info": "b1-x",
        "media_marker": "<__media_1__>",
        "chat_template": "{{ strftime_now('%y%m%d!') }}",
    },
}
ONE_SLOT = {"slots": 1, "context": 4096, "capacity": 4096}


def llama(template, pages=None):
    """A llama-server with a template and pages of ours."""
    return ModelServer(template, pages={PAGE: renders} if pages is None else pages, status=STATUS)


def profile_of(proxy):
    return proxy.page("health")["profile"]


def send(proxy, body):
    return proxy.ask(PATHS["messages"], json.dumps(body).encode())


def test_all_is_learned_when_the_proxy_starts(start):
    """From status pages and from the template; the banner says what is known of the cache."""
    server = llama(partial(thinking, keeps=lambda late, kwargs: late or "clear_thinking" in kwargs))

    def renders_as_asked(model, peer, _, body):
        kwargs = body.get("chat_template_kwargs", {})
        text = model.template(body["messages"], body.get("tools"), **kwargs)
        model.send(peer, b"200 OK", {"prompt": text})

    server.pages[PAGE] = renders_as_asked
    proxy = start(server)
    assert any(
        line.strip() == ("cache       the server always reports reuse") for line in proxy.lines
    )
    profile = profile_of(proxy)
    assert profile["thoughts"] == {"way": "kept on request", "asked_by": ["clear_thinking", False]}
    assert (profile["order"], profile["page"]) == ("system first", PAGE)
    assert (profile["memory"], profile["reporting"]) == (ONE_SLOT, "always")


def test_it_is_learned_once_and_anew_of_a_server_that_was_started_anew(start):
    """The health page and the looks ask its template no more; nothing of the one before is left."""
    server = llama(thinking)
    proxy = start(server, CACHEPROXY_POLL="0.05")
    first = profile_of(proxy)
    assert (first["order"], first["thoughts"]) == ("system first", {"way": "dropped"})
    server.paths()
    looks = len(server.looked)
    eventually(lambda: server.looked[looks:].count("/props") > 3)
    assert profile_of(proxy)["order"] == "system first"
    assert server.paths() == []
    server.template = partial(thinking, keeps=lambda late, kwargs: True)
    server.status = STATUS | {"/props": STATUS["/props"] | {"media_marker": "<__media_2__>"}}
    eventually(lambda: profile_of(proxy).get("thoughts") == {"way": "kept"})
    assert profile_of(proxy)["start"] != first["start"]


@pytest.mark.parametrize(("setting", "role"), [("off", "system"), ("user", "user")])
def test_a_llama_server_tells_what_its_template_does_whatever_is_done_about_it(
    start, setting, role
):
    """Placement goes by the setting alone."""
    server = llama(inline)
    proxy = start(server, "--placement", setting)
    assert profile_of(proxy)["order"] == "tools first"
    assert send(proxy, late()).status == 200
    assert server.asked[-1][1]["messages"][-1]["role"] == role


@pytest.mark.parametrize(
    "answer",
    [b'{"prompt": "' + b"x" * (4 << 20) + b'"}', b'{"prompt": "cacheproxy-head of another model"}'],
)
def test_a_rendering_page_of_nonsense_tells_nothing(start, answer):
    proxy = start(llama(inline, pages={PAGE: says(whole(answer))}))
    profile = profile_of(proxy)
    assert {"thoughts", "order", "page", "clock"}.isdisjoint(profile)
    assert profile["reporting"] == "always"
    assert send(proxy, {"model": "m", "messages": []}).status == 200


def test_what_the_models_of_a_router_do_not_have_in_common_is_left_out(start):
    """A verdict on a turn of one must not rest on the template of the other."""
    templates = {"one": strict, "two": partial(thinking, keeps=lambda late, kwargs: True)}

    def routed(model, peer, received, body):
        if body.get("model") not in templates:
            model.send(peer, b"400 Bad Request", {"error": {"message": "model is missing"}})
            return
        try:
            text = templates[body["model"]](body["messages"], body.get("tools"))
        except RefusedError:
            model.send(peer, b"400 Bad Request", {"error": {"message": "no"}})
        else:
            model.send(peer, b"200 OK", {"prompt": text})

    server = ModelServer(inline, pages={PAGE: routed})
    proxy = start(server)
    assert "order" not in profile_of(proxy)
    assert send(proxy, late(model="one")).status == 200
    assert profile_of(proxy)["order"] == "tools first"
    assert send(proxy, late(model="two")).status == 200
    assert {"thoughts", "order"}.isdisjoint(profile_of(proxy))
    assert profile_of(proxy)["page"] == PAGE


ASKS = [
    ({}, "chat", b',"return_progress":true}'),
    ({}, "responses", b',"return_progress":true}'),
    ({}, "messages", b"}"),
    ({"stream": False}, "chat", b"}"),
    ({"return_progress": False}, "chat", b"}"),
]


def test_progress_is_asked_for_where_it_can_be_taken_out_again(start):
    """In streams of the APIs that tell it; not of a remote server, nor once somebody packs them."""
    server = llama(inline)

    def sent(proxy, api="chat", **more):
        body = json.dumps(late(api, stream=True) | more).encode()
        assert proxy.ask(PATHS[api], body).status == 200
        came = server.raw[-1].body
        assert came.startswith(body[:-1])
        return came[len(body) - 1 :]

    proxy = start(server)
    assert [sent(proxy, api, **more) for more, api, _ in ASKS] == [end for *_, end in ASKS]
    server.send = lambda peer, *_: peer.send(whole(b"\x1f\x8b", b"Content-Encoding: gzip"))
    assert [sent(proxy) for _ in range(2)] == [ASKS[0][2], b"}"]


def test_no_progress_is_asked_of_a_remote_server(tmp_path, upstream):
    server = llama(inline)
    upstream.reset(server)
    table = f'[[upstream]]\nname = "far"\nurl = "{upstream.url}"\nremote = true\n'
    (tmp_path / "config.toml").write_text(table)
    with Proxy(tmp_path, "--config", "config.toml") as proxy:
        assert profile_of(proxy)["reporting"] == "always"
        body = json.dumps(late("chat", stream=True)).encode()
        assert proxy.ask(PATHS["chat"], body).status == 200
        assert server.raw[-1].body == body
