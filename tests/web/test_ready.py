"""GET /_cacheproxy/ready and health, as load balancers ask for them."""

from __future__ import annotations

import json

import pytest

from tests.proxy.harness import Client, Proxy, answer_ok, free_port, whole

pytestmark = pytest.mark.slow

CHECKS = ("/_cacheproxy/ready", "/_cacheproxy/health")


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    folder, environ = tmp_path_factory.mktemp("ready"), {"CACHEPROXY_TOKEN": "secret"}
    with Proxy(folder, "--upstream", upstream.url, **environ) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A proxy whose upstream is down."""
    upstream = f"http://127.0.0.1:{free_port()}"
    with Proxy(tmp_path_factory.mktemp("alone"), "--upstream", upstream) as proxy:
        yield proxy


def ask(proxy, path, *fields, version=b"HTTP/1.1"):
    """What a balancer's check is answered."""
    with Client(proxy.address) as client:
        lines = [b"GET %s %s" % (path.encode(), version), *fields, b"", b""]
        client.send(b"\r\n".join(lines))
        answer = client.answer()
    return answer.status, json.loads(answer.body)


def test_it_is_ready_while_the_upstream_answers(proxy, upstream):
    """Whatever it answers: not every server has a page for this."""
    upstream.reset(answer_ok)
    assert ask(proxy, CHECKS[0], b"Host: balancer.lan") == (200, {"ready": True})
    upstream.reset(lambda peer, _: peer.send(whole(b"no", status=b"404 Not Found")))
    assert ask(proxy, CHECKS[0]) == (200, {"ready": True})
    assert ask(proxy, CHECKS[0], version=b"HTTP/1.0") == (200, {"ready": True})


def test_it_is_not_while_a_model_is_loaded(proxy, upstream):
    """As llama-server says it."""
    upstream.reset(lambda peer, _: peer.send(whole(b"{}", status=b"503 Service Unavailable")))
    assert ask(proxy, CHECKS[0]) == (503, {"ready": False})


def test_it_is_not_while_nobody_is_there(alone):
    """The page health is there all the same, and says who is missing."""
    assert ask(alone, CHECKS[0]) == (503, {"ready": False})
    status, said = ask(alone, CHECKS[1], b"Host: localhost")
    assert (status, said["upstream"]["state"], "server" in said["upstream"]) == (200, "down", False)


def test_by_another_name_health_tells_no_more(alone, proxy, upstream):
    """Such a name may be that of a web page. With a token it is needed, too."""
    assert ask(alone, CHECKS[1], b"Host: balancer.lan") == (503, {"ready": False})
    assert "version" in ask(alone, CHECKS[1])[1]
    upstream.reset(answer_ok)
    status, said = ask(proxy, CHECKS[1], b"Host: balancer.lan")
    assert (status, list(said)) == (401, ["error"])
    token = b"X-Cacheproxy-Token: secret"
    assert ask(proxy, CHECKS[1], b"Host: balancer.lan", token) == (200, {"ready": True})


@pytest.mark.parametrize("path", ["/v1/models", "/_cacheproxy/exchanges", "/_cacheproxy/readyx"])
def test_nothing_else_is_had_that_way(proxy, path):
    """Neither without a name nor by another one."""
    assert ask(proxy, path)[0] == 400
    assert ask(proxy, path, b"Host: balancer.lan")[0] == 421
