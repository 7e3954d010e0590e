"""GET /_cacheproxy/health: our version, the upstream, the rules that are on, and their failures."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.web.pages import answer
from tests.proxy.harness import Client, Proxy, answer_ok, free_port, whole

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


@pytest.mark.parametrize("method", [b"HEAD", b"POST", b"DELETE", b"OPTIONS"])
def test_it_is_only_read(ask, upstream, method):
    """HEAD is like GET; others get 405 and reach nobody."""
    upstream.reset(llama_server)
    answer = ask(method=method, body=b"{}" if method == b"POST" else None)
    if method == b"HEAD":
        assert (answer.status, answer.body) == (200, b"")
        assert int(answer.values(b"content-length")[0]) > 100
    else:
        assert answer.status == 405
        assert answer.values(b"allow") == [b"GET, HEAD"]
        assert upstream.requests.empty()


@pytest.mark.parametrize(
    "target", ["/_cacheproxy/x", "/_cacheproxy/static", "/_cacheproxy/health/"]
)
@pytest.mark.parametrize("method", [b"GET", b"POST", b"HEAD"])
def test_other_pages_of_ours_are_not_there(ask, upstream, target, method):
    """404, and nothing of ours reaches the upstream."""
    upstream.reset()
    answer = ask(target, method)
    assert answer.status == 404
    if method != b"HEAD":
        assert "error" in json.loads(answer.body)
    assert upstream.requests.empty()


@pytest.mark.parametrize("target", ["/", "/metrics", "/health", "/_cacheproxyx", "/dashboard/"])
def test_the_rest_belongs_to_the_upstream(proxy, upstream, target):
    """The root as well."""
    upstream.reset(answer_ok)
    with Client(proxy.address) as client:
        assert client.ask(target, method=b"GET").answer().body == b'{"ok":true}'
    assert upstream.received().line == f"GET {target} HTTP/1.1".encode()


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


@pytest.fixture(scope="module")
def guarded(upstream, tmp_path_factory):
    folder, environ = tmp_path_factory.mktemp("ready"), {"CACHEPROXY_TOKEN": "secret"}
    with Proxy(folder, "--upstream", upstream.url, **environ) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A proxy whose upstream is down."""
    upstream = f"http://127.0.0.1:{free_port()}"
    with Proxy(tmp_path_factory.mktemp("alone"), "--upstream", upstream) as proxy:
        yield proxy


def check(proxy, path, *fields, version=b"HTTP/1.1"):
    """What a balancer's check is answered."""
    with Client(proxy.address) as client:
        lines = [b"GET %s %s" % (path.encode(), version), *fields, b"", b""]
        client.send(b"\r\n".join(lines))
        answer = client.answer()
    return answer.status, json.loads(answer.body)


def test_it_is_ready_while_the_upstream_answers(guarded, upstream):
    """Whatever it answers: not every server has a page for this."""
    upstream.reset(answer_ok)
    assert check(guarded, CHECKS[0], b"Host: balancer.lan") == (200, {"ready": True})
    upstream.reset(lambda peer, _: peer.send(whole(b"no", status=b"404 Not Found")))
    assert check(guarded, CHECKS[0]) == (200, {"ready": True})
    assert check(guarded, CHECKS[0], version=b"HTTP/1.0") == (200, {"ready": True})


def test_it_is_not_while_a_model_is_loaded(guarded, upstream):
    """As llama-server says it."""
    upstream.reset(lambda peer, _: peer.send(whole(b"{}", status=b"503 Service Unavailable")))
    assert check(guarded, CHECKS[0]) == (503, {"ready": False})


def test_it_is_not_while_nobody_is_there(alone):
    """The page health is there all the same, and says who is missing."""
    assert check(alone, CHECKS[0]) == (503, {"ready": False})
    status, said = check(alone, CHECKS[1], b"Host: localhost")
    assert (status, said["upstream"]["state"], "server" in said["upstream"]) == (200, "down", False)


def test_by_another_name_health_tells_no_more(alone, guarded, upstream):
    """Such a name may be that of a web page. With a token it is needed, too."""
    assert check(alone, CHECKS[1], b"Host: balancer.lan") == (503, {"ready": False})
    assert "version" in check(alone, CHECKS[1])[1]
    upstream.reset(answer_ok)
    status, said = check(guarded, CHECKS[1], b"Host: balancer.lan")
    assert (status, list(said)) == (401, ["error"])
    token = b"X-Cacheproxy-Token: secret"
    assert check(guarded, CHECKS[1], b"Host: balancer.lan", token) == (200, {"ready": True})


@pytest.mark.parametrize("path", ["/v1/models", "/_cacheproxy/exchanges", "/_cacheproxy/readyx"])
def test_nothing_else_is_had_that_way(guarded, path):
    """Neither without a name nor by another one."""
    assert check(guarded, path)[0] == 400
    assert check(guarded, path, b"Host: balancer.lan")[0] == 421
