"""GET /_cacheproxy/metrics, through a real proxy."""

from __future__ import annotations

import gzip
import secrets
import signal
import time

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from twisted.internet.defer import Deferred

from cacheproxy.core.rules.fold import Failures
from cacheproxy.metrics import Metrics, MetricsSources
from cacheproxy.web.monitoring import MetricsResource, content
from cacheproxy.web.pages import Content
from tests.metrics.builders import families, parsed, value
from tests.observe.exchanges import body
from tests.proxy.harness import Client, Proxy, eventually
from tests.test_imports import loaded_by

from .asking import Asking, get, turn

pytestmark = pytest.mark.slow

PAGE = "/_cacheproxy/metrics"
RULE = "[[rule]]\nname = 'stamp'\nwhere = 'system'\npattern = 'stamp=\\d+'\nreplacement = ''\n"


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "config.toml").write_text(RULE)
    with Proxy(folder, "--config", "config.toml", "--upstream", upstream.url) as proxy:
        yield proxy


def series(proxy):
    return parsed(get(proxy, PAGE).body.decode())


def counted(proxy, name, wanted, **labels):
    """Wait until the exchanges that have gone down are counted, too."""
    eventually(lambda: value(series(proxy), name, **labels) == wanted)


def test_turns_are_counted(proxy, upstream):
    """A cold one, and one that lost its cache; the rule that fired is named."""
    before = value(series(proxy), "cacheproxy_rule_hits_total", rule="stamp")
    session = (b"X-Session-Id: s1", b"User-Agent: Cline/3.1")
    turn(proxy, upstream, body("a", system=f"stamp=12 {'x ' * 3000}"), 2000, 0, *session)
    turn(proxy, upstream, body("a", "b", system=f"other {'x ' * 3000}"), 2010, 3, *session)
    counted(proxy, "cacheproxy_breaks_total", 1, client="cline")
    said = series(proxy)
    assert value(said, "cacheproxy_breaks_total", reason="system_changed") == 1
    assert value(said, "cacheproxy_prompt_tokens_total", client="cline", source="reused") == 3
    assert value(said, "cacheproxy_prompt_tokens_total", client="cline", source="evaluated") == 4007
    assert value(said, "cacheproxy_generated_tokens_total", client="cline") == 14
    assert value(said, "cacheproxy_turns_total", verdict="cold", upstream=upstream.url) == 1
    assert before == 0
    assert value(said, "cacheproxy_rule_hits_total", rule="stamp") == 1


def test_a_reload_keeps_what_was_counted(upstream, tmp_path):
    """As a counter that falls is a restart, to Prometheus; the new rules are shown at once."""
    (tmp_path / "config.toml").write_text(RULE)
    arguments = ("--config", str(tmp_path / "config.toml"), "--upstream", upstream.url)
    upstream.reset()
    with Proxy(tmp_path, *arguments) as own:
        get(own, "/v1/models")
        counted(own, "cacheproxy_requests_total", 1)
        (tmp_path / "config.toml").write_text(RULE + RULE.replace("stamp", "other"))
        own.signal(signal.SIGHUP)
        own.wait_for("reloaded: rule changed")
        said = series(own)
    assert value(said, "cacheproxy_requests_total") == 1
    assert value(said, "cacheproxy_rule_hits_total", rule="other") == 0


def test_the_format_is_the_one_asked_for(proxy):
    """Plain text, or OpenMetrics, which its own parser accepts."""
    plain = get(proxy, PAGE)
    assert plain.status == 200
    assert plain.values(b"content-type") == [b"text/plain; version=0.0.4; charset=utf-8"]
    assert plain.values(b"cache-control") == [b"no-store"]
    assert plain.values(b"x-content-type-options") == [b"nosniff"]
    assert not plain.values(b"content-encoding")
    prometheus = (
        b"Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
    )
    answer = get(proxy, PAGE, prometheus)
    assert answer.values(b"content-type")[0].startswith(b"application/openmetrics-text; version=1.")
    names = {family.name for family in openmetrics_families(answer.body.decode())}
    assert {"cacheproxy_requests", "cacheproxy_build_info", "cacheproxy_connections"} <= names
    assert b"_created" not in plain.body + answer.body


def test_it_is_compressed_only_if_asked(proxy):
    answer = get(proxy, PAGE, b"Accept-Encoding: gzip")
    assert answer.values(b"content-encoding") == [b"gzip"]
    assert b"cacheproxy_build_info" in gzip.decompress(answer.body)
    assert b"cacheproxy_build_info" in get(proxy, PAGE, b"Accept-Encoding: identity, br").body


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=x",
        "application/openmetrics-text; version=1.0.0.<script>",
        'application/openmetrics-text; version=1.0.0; escaping="',
        "text/plain; version=" + "9" * 5000,
        "\xff",
    ],
)
def test_an_accept_header_of_nonsense(accept):
    """It is neither an error nor repeated."""
    answer = content(families(), accept)
    assert answer.status == 200
    assert b"cacheproxy_build_info" in answer.body
    assert not set(answer.type) & set(b'<>"\xff')
    assert len(answer.type) < 200


def test_streams_are_open_while_they_are(proxy, upstream):
    """A request that the upstream has not answered yet is under way."""
    upstream.reset(lambda peer, _: peer.wait_closed())
    assert value(series(proxy), "cacheproxy_open_requests") == 0
    with Client(proxy.address) as client:
        client.ask("/v1/messages", b"{}")
        upstream.received()
        said = series(proxy)
        assert value(said, "cacheproxy_open_requests") == 1
        assert value(said, "cacheproxy_connections") >= 2
    counted(proxy, "cacheproxy_open_requests", 0)
    counted(proxy, "cacheproxy_requests_total", 1, outcome="client_left", status="none")


def test_no_prompt_no_session_and_no_key(proxy, upstream):
    """Wherever a canary is put: in texts, names, headers, the query."""
    sign = f"kanarie{secrets.token_hex(4)}"
    key = f"sk-ant-api03-{sign}K"
    said = body(f"prompt{sign}", system=f"system{sign}", tools=(f"tool{sign}",), model=key)
    said["metadata"] = {"user_id": f"user_{sign}"}
    fields = [
        f"X-Session-Id: session{sign}",
        f"X-Api-Key: {key}",
        f"Authorization: Bearer bearer{sign}",
        f"Cookie: sid={sign}",
        f"User-Agent: {key}",
    ]
    turn(proxy, upstream, said, 30, 0, *(field.encode() for field in fields))
    with Client(proxy.address) as client:
        client.ask(f"/v1/models?key={sign}", method=b"GET").answer(method=b"GET")
    time.sleep(0.2)
    text = get(proxy, PAGE).body.decode()
    assert sign not in text
    assert "kanarie" not in text  # nor the piece of it that a name would be cut to
    assert sign not in proxy.output


def test_a_page_that_nobody_waits_for_is_not_written():
    """The client left while a thread made it."""
    waiting = Deferred()
    page = MetricsResource(
        Metrics(), MetricsSources("1", Failures(), lambda: 0.0), (), lambda _: waiting
    )
    asking = Asking(page)
    asking.leave()
    waiting.callback(Content(b"text/plain", b"page"))
    assert not asking.written


def test_the_page_does_not_choose_the_reactor():
    """As prometheus-client's own resource for Twisted does."""
    loaded = loaded_by("import cacheproxy.web.monitoring")
    assert "prometheus_client" in loaded
    assert "twisted.internet.reactor" not in loaded
