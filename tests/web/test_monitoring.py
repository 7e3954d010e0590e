"""GET /_cacheproxy/health and metrics, through a real proxy and in memory (monitoring.txt)."""

import json
import signal
from functools import partial

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.metrics import Metrics
from cacheproxy.web.monitoring import content, metrics_page
from cacheproxy.web.pages import Content, answer
from tests import transcript
from tests.metrics.builders import families, parsed, value
from tests.proxy.harness import Client, Proxy, eventually, whole
from tests.test_imports import loaded_by

from .asking import Asking, get, turn

PAGE, HEALTH = "/_cacheproxy/metrics", "/_cacheproxy/health"
RULE = "[[rule]]\nname = 'stamp'\nwhere = 'system'\npattern = 'stamp=\\d+'\nreplacement = ''\n"
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
    folder = tmp_path_factory.mktemp("monitoring")
    (folder / "config.toml").write_text(RULE)
    upstream.reset(llama_server)
    with Proxy(folder, "--config", "config.toml", "--upstream", upstream.url) as proxy:
        yield proxy


@pytest.mark.slow
def test_health(proxy, upstream, tmp_path):
    """It tells of the upstream as it is now, asked anew each time; what is odd counts as none."""

    def health(script=None, target=HEALTH):
        upstream.reset(*([script] if script else []))
        answer = get(proxy, target)
        assert (answer.status, answer.end) == (200, "whole")
        assert answer.values(b"content-type") == [b"application/json"]
        assert answer.values(b"cache-control") == [b"no-store"]
        return json.loads(answer.body.replace(upstream.url.encode(), b"UPSTREAM"))

    def endless(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(200):
            peer.send(b"x" * 100_000)

    def sends(data):
        return lambda peer, _: peer.send(data)

    def afar():
        """What is said, and answered, where the upstream is remote."""
        (tmp_path / "config.toml").write_text(RULE)
        options = ("--config", "config.toml", "--connect-timeout", "0.5")
        with Proxy(tmp_path, *options, "--upstream", "http://nosuch.invalid:1") as remote:
            rules = json.loads(get(remote, HEALTH).body)["rules"]
            failed = get(remote, "/v1/messages", method=b"POST", payload=b"{}")
            (said,) = (line for line in remote.lines if "rules " in line)
        return rules, said, failed.status in (502, 504), b"nosuch.invalid" in failed.body

    def left(script):
        """What the log says of who leaves while the upstream is asked."""
        upstream.reset(lambda peer, _: peer.wait_closed())
        mark = proxy.mark()
        with Client(proxy.address) as client:
            client.ask(HEALTH, method=b"GET")
            upstream.received()
        health(script)
        return [line for line in proxy.lines[mark:] if not line[:1].isdigit()]

    names = {"health": health, "endless": endless, "sends": sends, "afar": afar, "left": left}
    transcript.holds("health.txt", globals() | names | {"proxy": proxy})


@pytest.mark.slow
def test_metrics(proxy, upstream, tmp_path):
    """Turns are counted, a reload keeps what was; no prompt, no session and no key."""

    def series(at=proxy):
        return parsed(get(at, PAGE).body.decode())

    def counted(name, wanted, at=proxy, **labels):
        """Wait until the exchanges that have gone down are counted, too."""
        eventually(lambda: value(series(at), name, **labels) == wanted)

    def shown(*wanted):
        """Of each series with these labels: its value."""
        said = series()
        return {
            f"{name} {' '.join(labels.values())}": value(said, f"cacheproxy_{name}", **labels)
            for name, labels in wanted
        }

    def asked(said, prompt, reused, *fields):
        turn(proxy, upstream, said, prompt, reused, *fields)

    def fetched(*fields):
        answer = get(proxy, PAGE, *fields)
        kinds = (b"content-type", b"cache-control", b"x-content-type-options", b"content-encoding")
        return answer.status, [answer.values(name) for name in kinds], answer.body

    def open_while_asked():
        upstream.reset(lambda peer, _: peer.wait_closed())
        with Client(proxy.address) as client:
            client.ask("/v1/messages", b"{}")
            upstream.received()
            said = series()
        counted("cacheproxy_open_requests", 0)
        counted("cacheproxy_requests_total", 1, outcome="client_left", status="none")
        names = ("cacheproxy_open_requests", "cacheproxy_connections")
        return [value(said, name) for name in names]

    def reloaded():
        """Two counts after a reload that adds a rule."""
        file = tmp_path / "config.toml"
        file.write_text(RULE)
        upstream.reset()
        with Proxy(tmp_path, "--config", str(file), "--upstream", upstream.url) as own:
            get(own, "/v1/models")
            counted("cacheproxy_requests_total", 1, at=own)
            file.write_text(RULE + RULE.replace("stamp", "other"))
            own.signal(signal.SIGHUP)
            own.wait_for("reloaded: rule changed")
            said = series(own)
        names = {"cacheproxy_requests_total": {}, "cacheproxy_rule_hits_total": {"rule": "other"}}
        return [value(said, name, **labels) for name, labels in names.items()]

    names = {name: each for name, each in locals().items() if name != "names"}
    transcript.holds("metrics.txt", globals() | names)


def test_an_accept_header_of_nonsense_is_neither_an_error_nor_repeated():
    for accept in (
        "application/openmetrics-text; version=x",
        "application/openmetrics-text; version=1.0.0.<script>",
        'application/openmetrics-text; version=1.0.0; escaping="',
        "text/plain; version=" + "9" * 5000,
        "\xff",
    ):
        found = content(families(), accept)
        assert (accept, found.status) == (accept, 200)
        assert b"cacheproxy_build_info" in found.body
        assert not set(found.type) & set(b'<>"\xff')
        assert len(found.type) < 200


def test_a_page_that_fails_is_a_500():
    """Its client does not wait for ever."""

    async def page():
        raise RuntimeError("secret")

    asking = Asking(lambda request: answer(request, page))
    assert asking.status == 500
    assert b"secret" not in asking.written


def test_a_client_that_leaves_stops_its_page():
    """What it waited for is cancelled, and nothing is written any more: of a thread's, too."""
    cancelled = []
    waiting, page = Deferred(cancelled.append), Deferred()

    async def waits():
        await waiting
        return {}

    metrics = Asking(partial(metrics_page, Metrics(), list, (), lambda _: page))
    asking = Asking(lambda request: answer(request, waits))
    assert not cancelled
    for each in (asking, metrics):
        each.leave()
    page.callback(Content(b"text/plain", b"page"))
    assert cancelled == [waiting]
    assert not asking.written + metrics.written


@pytest.mark.slow
def test_the_page_does_not_choose_the_reactor():
    """As prometheus-client's own resource for Twisted does."""
    loaded = loaded_by("import cacheproxy.web.monitoring")
    assert "prometheus_client" in loaded
    assert "twisted.internet.reactor" not in loaded
