"""Spans as a collector gets them: the real SDK, OTLP over HTTP, a server of our own."""

from __future__ import annotations

import gzip
import json
import logging
import os
import signal
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.record.exchange import Outcome
from tests.observe.exchanges import body, exchange
from tests.peer import NOBODY
from tests.proxy.harness import Client, Proxy, Upstream, environment, eventually, twistd, whole
from tests.test_imports import loaded_by

SAID = body("a", model="qwen")
MISSING = (
    "otel needs the OpenTelemetry SDK: "
    "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
)


def needs_sdk():
    pytest.importorskip("opentelemetry.sdk.trace", exc_type=ImportError)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", exc_type=ImportError)


class Collector:
    """Takes what is exported; ``spans`` and ``resources`` are what came."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.spans: list = []
        self.resources: list = []
        collector = self

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        data = request.rfile.read(int(request.headers["Content-Length"]))
        if request.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        self.requests.append((request.path, dict(request.headers)))
        for part in trace_service_pb2.ExportTraceServiceRequest.FromString(data).resource_spans:
            self.resources.append(read(part.resource.attributes))
            for scope in part.scope_spans:
                self.spans += scope.spans
        request.send_response(200)
        request.end_headers()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def read(attributes) -> dict:
    """Attributes of OTLP as plain values."""
    found = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        if kind == "array_value":
            value = tuple(item.string_value for item in value.values)
        found[each.key] = value
    return found


@pytest.fixture
def collector():
    needs_sdk()
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def make(collector, monkeypatch):
    """Make the observer, with OpenTelemetry's variables set to ``environ``; no proxy between."""

    def make(**environ):
        from cacheproxy.observe.spans import Spans

        given = {"no_proxy": "*", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **environ}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return Spans("1.2")

    yield make
    logger = logging.getLogger("opentelemetry")
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)  # a thread may be at its last try: no later test hears of it


@pytest.fixture
def sent(make, collector):
    """Have exchanges seen; return the spans that came of them."""

    def sent(*exchanges, **environ):
        spans = make(**environ)
        spans.cacheproxy_exchange_finished(exchanges)
        spans.stop()
        return collector.spans

    return sent


def with_parent(parent):
    turn = exchange(SAID)
    return replace(turn, received=replace(turn.received, headers=((b"Traceparent", parent),)))


def test_an_exchange_is_a_span(sent, collector):
    """With its own times, a client's kind, and the attributes."""
    usage = Usage(1000, 900, 50)
    (span,) = sent(exchange(SAID, usage=usage, wall=1_700_000_000.5, seconds=1.25))
    assert (span.name, span.kind, span.status.code) == ("chat qwen", 3, 0)  # SPAN_KIND_CLIENT
    assert span.start_time_unix_nano == 1_700_000_000_500_000_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1_250_000_000
    assert not span.parent_span_id
    found = read(span.attributes)
    assert found["gen_ai.usage.input_tokens"] == 1000
    assert found["gen_ai.usage.cache_read.input_tokens"] == 900
    (resource,) = collector.resources
    assert (resource["service.name"], resource["service.version"]) == ("cacheproxy", "1.2")
    assert collector.requests[0][0] == "/v1/traces"


def test_a_failure_is_an_error(sent):
    failed = {"outcome": Outcome.UPSTREAM_FAILED, "status": 502, "error": "kanarie"}
    (span,) = sent(exchange(SAID, **failed))
    assert (span.status.code, span.status.message) == (2, "")
    assert "kanarie" not in str(span)


def test_the_client_may_have_begun_the_trace(sent):
    """Its traceparent is the parent; one that it does not sample is not sent."""
    parent = b"00-%s-%s-" % (b"ab" * 16, b"cd" * 8)
    (span,) = sent(with_parent(parent + b"01"), with_parent(parent + b"00"))
    assert span.trace_id.hex() == "ab" * 16
    assert span.parent_span_id.hex() == "cd" * 8


@pytest.mark.parametrize("parent", [b"nonsense", b"", b"\xff" * 5000])
def test_a_traceparent_of_nonsense_is_none(sent, parent):
    (span,) = sent(with_parent(parent))
    assert not span.parent_span_id


def test_opentelemetrys_own_variables_hold(sent, collector):
    sent(
        exchange(SAID),
        OTEL_SERVICE_NAME="mine",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        OTEL_EXPORTER_OTLP_HEADERS="x-mine=yes",
        OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
    )
    (resource,) = collector.resources
    assert resource["service.name"] == "mine"
    assert resource["deployment.environment.name"] == "test"
    ((_, headers),) = collector.requests
    assert {name.lower(): value for name, value in headers.items()}["x-mine"] == "yes"


@pytest.mark.parametrize(
    "off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_SAMPLER": "always_off"}], ids=str
)
def test_they_can_be_switched_off(sent, collector, off):
    sent(exchange(SAID), **off)
    assert not collector.requests


def test_a_variable_of_nonsense_is_one_line(make):
    from cacheproxy.config import ConfigError

    with pytest.raises(ConfigError, match=r"^[^\n]*max_queue_size[^\n]*$"):
        make(OTEL_BSP_MAX_QUEUE_SIZE="-1")


@pytest.mark.slow
def test_a_collector_that_is_away_costs_no_request_anything(make, logged):
    """Making spans goes on, stopping comes to an end, the log has plain lines."""
    spans = make(OTEL_EXPORTER_OTLP_ENDPOINT=NOBODY, OTEL_BSP_SCHEDULE_DELAY="50")
    for _ in range(50):
        spans.cacheproxy_exchange_finished([exchange(SAID)])
    eventually(lambda: logged)  # a batch was given up, and is no more than a line
    spans.stop()
    assert all("\n" not in line and len(line) < 400 for line in logged)


@pytest.mark.slow
def test_a_collector_that_never_answers_does_not_hold_up_the_end(make, logged):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        spans = make(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        spans.cacheproxy_exchange_finished([exchange(SAID)])
        spans.stop()
    assert any("the last spans are lost" in line for line in logged)


@pytest.mark.slow
def test_a_request_through_the_proxy_is_a_span(collector, tmp_path):
    """Sent before the proxy is gone, though the batch was not full; the stop is clean."""
    upstream = Upstream()
    usage = b'{"usage":{"prompt_tokens":9,"completion_tokens":1}}'
    upstream.reset(lambda peer, _: peer.send(whole(usage, b"Content-Type: application/json")))
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    with Proxy(tmp_path, "--otel", "--upstream", upstream.url, **environ) as proxy:
        with Client(proxy.address) as client:
            asked = client.ask("/v1/chat/completions", json.dumps(SAID).encode())
            assert asked.answer().status == 200
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
    upstream.close()
    (span,) = collector.spans
    assert span.name == "chat qwen"
    assert read(span.attributes)["gen_ai.usage.input_tokens"] == 9
    assert "Traceback" not in proxy.output


@pytest.mark.slow
def test_the_proxy_does_not_start_without_the_extra(tmp_path):
    """One line, and exit code 2."""
    hidden = tmp_path / "opentelemetry"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        twistd("--otel"),
        env=environment(tmp_path, PYTHONPATH=path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"cacheproxy: {MISSING}"]


@pytest.mark.slow
def test_importing_it_imports_nothing_of_opentelemetry():
    loaded = loaded_by("import cacheproxy.observe.spans")
    assert not [name for name in loaded if name.startswith("opentelemetry")]
