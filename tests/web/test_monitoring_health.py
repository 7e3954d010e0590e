"""GET /_cacheproxy/health: our version, the upstream, the rules that are on, and their failures."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.web.pages import answer
from tests.proxy.harness import Client, Proxy, whole

from .asking import Asking, get

pytestmark = pytest.mark.slow

HEALTH = "/_cacheproxy/health"
OURS = [rule.name for rule in BUILT_IN]
RULE = "[[rule]]\nname = 'stamp'\nwhere = 'system'\npattern = 'x'\nreplacement = ''\n"
PAGES = {
    b"/props": {
        "default_generation_settings": {"n_ctx": 4096},
        "total_slots": 2,
        "build_info": "b9724-x",
    },
    b"/v1/models": {"data": [{"id": "qwen"}]},
}


def llama_server(peer, received):
    page = PAGES.get(received.line.split(b" ")[1])
    body = json.dumps(page).encode()
    peer.send(whole(body) if page else whole(b"no", status=b"404 Not Found"))


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("health")
    (folder / "config.toml").write_text(RULE)
    upstream.reset(llama_server)
    with Proxy(folder, "--config", "config.toml", "--upstream", upstream.url) as proxy:
        yield proxy


@pytest.fixture
def ask(proxy):
    def ask(target=HEALTH, method=b"GET", body=None):
        answer = get(proxy, target, method=method, payload=body)
        assert answer.end == "whole"
        assert answer.values(b"content-type") == [b"application/json"]
        assert answer.values(b"cache-control") == [b"no-store"]
        return answer

    return ask


def test_it_tells_of_the_upstream_as_it_is_now(ask, upstream, proxy):
    """Asked anew each time."""
    upstream.reset(llama_server)
    answer = ask()
    assert answer.status == 200
    found = json.loads(answer.body)
    assert found == {
        "version": version("cacheproxy-llm"),
        "rules": ["stamp", *OURS],
        "clients": dict.fromkeys(("stamp", *OURS), "*"),
        "packages": [],
        "upstreams": [],
        "placement": {"setting": "auto", "late": "unknown", "says": ""},
        "thinking": {"setting": "auto", "on": False, "says": ""},
        "profile": {
            "memory": {"slots": 2, "context": 4096},
            "reporting": "always",
            "told_by": "its status pages",
            "says": {"memory": "the server always reports reuse"},
        },
        "upstream": {
            "url": upstream.url,
            "state": "up",
            "server": {
                "kind": "llama-server",
                "version": "b9724",
                "model": "qwen",
                "context": 4096,
                "slots": 2,
            },
        },
        "failures": {},
        "probe": found["probe"],
        "requests": {"last": 0, "failed": {}},
    }
    assert "llama-server b9724 · qwen · 4,096 context · 2 slots" in proxy.output
    upstream.reset()
    found = json.loads(ask(HEALTH + "?x=1").body)
    assert found["upstream"]["server"]["kind"] == "model server"


def test_an_upstream_that_misbehaves_does_not_break_the_page(ask, upstream):
    """Endless, broken or strange pages count as pages that are not there."""

    def endless(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(200):
            peer.send(b"x" * 100_000)

    scripts = [
        lambda peer, _: peer.send(whole(b"[" * 100_000)),
        lambda peer, _: peer.send(whole(b"\xff\xfe")),
        lambda peer, _: peer.send(whole(b'{"default_generation_settings": 7}')),
        lambda peer, _: peer.send(whole(b"{}", status=b"503 Loading")),
        lambda peer, _: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx"),
        endless,
    ]
    for script in scripts:
        upstream.reset(script)
        assert json.loads(ask().body)["upstream"]["state"] == "up"


def test_for_a_remote_upstream_no_rule_is_on(tmp_path):
    """Its requests are not edited, so the page names none, and the banner says why."""
    (tmp_path / "config.toml").write_text(RULE)
    upstream = "http://nosuch.invalid:1"
    arguments = ("--config", "config.toml", "--upstream", upstream, "--connect-timeout", "0.5")
    with Proxy(tmp_path, *arguments) as proxy:
        with Client(proxy.address) as client:
            found = json.loads(client.ask(HEALTH, method=b"GET").answer().body)
            failed = client.ask("/v1/messages", b"{}").answer()
        assert "none: the upstream is not local" in proxy.output
    assert found["rules"] == []
    assert failed.status in (502, 504)
    assert b"nosuch.invalid" in failed.body


def asked(page):
    """A page asked for in memory."""
    return Asking(lambda request: answer(request, page))


def test_a_page_that_fails_is_a_500():
    """Its client does not wait for ever."""

    async def page():
        raise RuntimeError("secret")

    asking = asked(page)
    assert asking.status == 500
    assert b"secret" not in asking.written


def test_a_client_that_leaves_stops_its_page():
    """What it waited for is cancelled, and nothing is written any more."""
    cancelled: list[object] = []
    waiting: Deferred[None] = Deferred(cancelled.append)

    async def page():
        await waiting
        return {}

    asking = asked(page)
    assert not cancelled
    asking.leave()
    assert cancelled == [waiting]
    assert not asking.written


def test_leaving_while_the_upstream_is_asked(proxy, upstream):
    """It is asked no further, and the log has nothing to say."""
    upstream.reset(lambda peer, _: peer.wait_closed())
    mark = proxy.mark()
    with Client(proxy.address) as client:
        client.ask(HEALTH, method=b"GET")
        upstream.received()
    upstream.reset(llama_server)
    with Client(proxy.address) as client:
        assert client.ask(HEALTH, method=b"GET").answer().status == 200
    assert not [line for line in proxy.lines[mark:] if not line[:1].isdigit()]


pytestmark = pytest.mark.slow

CHECKS = ("/_cacheproxy/ready", "/_cacheproxy/health")
