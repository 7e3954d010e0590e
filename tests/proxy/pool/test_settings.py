"""A pool as its configuration has it: at the start, and as it is read again."""

import json
import signal

import pytest

from tests.proxy.harness import Proxy, free_port, sound_upstream, whole

from .conftest import BIG, spoken

pytestmark = pytest.mark.slow

SESSIONS = [f"s{number}" for number in range(24)]


def test_all_are_named_at_the_start_and_on_the_page(pool):
    found = pool()
    first = found.proxy.lines[0]
    assert all(f"{name} {found.upstreams[name].url}" in first for name in BIG)
    assert sum("  upstream    big" in line for line in found.proxy.lines) == 3
    each = found.proxy.page("health")["upstreams"]
    assert [one["name"] for one in each] == list(BIG)
    assert {one["state"] for one in each} == {"up"}


def test_another_upstream_is_taken_in_without_a_restart(pool, tmp_path):
    """Conversations stay where they are; new ones spread over all."""
    found = pool("big", "big2")
    first = {session: found.said(session) for session in SESSIONS}
    with sound_upstream() as more:
        more.reset(spoken("big3"))
        file = tmp_path / "pool.toml"
        file.write_text(file.read_text() + f'[[upstream]]\nname = "big3"\nurl = "{more.url}"\n')
        found.proxy.signal(signal.SIGHUP)
        assert "upstreams changed" in found.proxy.wait_for("reloaded")
        assert {session: found.said(session, 2) for session in SESSIONS} == first
        assert {found.said(f"new{number}") for number in range(24)} == set(BIG)
        mark = found.proxy.mark()
        file.write_text(file.read_text().replace('"big3"', '"big2"'))
        found.proxy.signal(signal.SIGHUP)
        said = found.proxy.wait_for("not reloaded", mark)
        assert "two upstreams are called 'big2'" in said
        assert found.said("new1", 2) in BIG


def test_an_upstream_that_is_the_proxy_itself_is_refused(tmp_path):
    port = free_port()
    table = '[[upstream]]\nname = "{}"\nurl = "http://127.0.0.1:{}"\n'.format
    (tmp_path / "pool.toml").write_text(table("me", port) + table("other", 9))
    proxy = Proxy(tmp_path, "--config", "pool.toml", port=port)
    assert proxy.ended() == 2
    assert proxy.lines[-1] == "cacheproxy: upstream me is this proxy itself"


def test_servers_of_one_pool_that_serve_different_models(pool):
    """The banner says so: a conversation that moves goes on with another model."""

    def serving(name):
        page = json.dumps({"data": [{"id": f"model-of-{name}", "object": "model"}]}).encode()
        return lambda peer, _: peer.send(whole(page, b"Content-Type: application/json"))

    found = pool("big", "big2", scripts={name: serving(name) for name in ("big", "big2")})
    assert "the upstreams serve different models: big model-of-big" in found.proxy.output
