"""One OpenTelemetry span per exchange, sent by OTLP over HTTP from a thread of the SDK's own.

OpenTelemetry's own variables say where to, how often and how many: OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES,
OTEL_BSP_SCHEDULE_DELAY, OTEL_SDK_DISABLED and the rest. The SDK is the extra ``otel``, imported
only if it is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from threading import Thread
from typing import Any

from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.config import ConfigError
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.genai import describe

_log = Logger()
_NANO = 1_000_000_000
_STOP_SECONDS = 3.0
_LONGEST = 300


class Spans:
    """The observer that makes spans. Raises ConfigError if the SDK is not installed.

    A client that sends ``traceparent`` (W3C Trace Context) is the span's parent.
    """

    def __init__(self, version: str) -> None:
        try:
            api = import_module("opentelemetry.trace")
            context = import_module("opentelemetry.trace.propagation.tracecontext")
            sdk = import_module("opentelemetry.sdk.trace")
            export = import_module("opentelemetry.sdk.trace.export")
            resources = import_module("opentelemetry.sdk.resources")
            otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        except ImportError:
            hint = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
            raise ConfigError(f"otel needs the OpenTelemetry SDK: {hint}") from None
        logger = logging.getLogger("opentelemetry")
        if not any(isinstance(handler, _ToOurLog) for handler in logger.handlers):
            logger.addHandler(_ToOurLog(logging.WARNING))
            logger.propagate = False
        named = {"service.version": version}
        found = resources.Resource.create(named)
        # but for the name that the SDK gives to those without one
        told = {
            key: value
            for key, value in found.attributes.items()
            if not (key == "service.name" and str(value).startswith("unknown_service"))
        }
        resource = resources.Resource({"service.name": "cacheproxy"} | told, found.schema_url)
        try:
            self._provider: Any = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
            self._provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        except ValueError as error:  # a variable's value is invalid
            raise ConfigError(f"otel: {_one_line(str(error))}") from None
        self._tracer = self._provider.get_tracer("cacheproxy", version)
        self._parent: Any = context.TraceContextTextMapPropagator()
        self._client = api.SpanKind.CLIENT
        self._failed = api.Status(api.StatusCode.ERROR)

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Make a span of each; the SDK's thread sends them, or drops them if 2,048 wait already."""
        for exchange in exchanges:
            name, attributes = describe(exchange)
            began = int(exchange.wall * _NANO)
            carrier = {
                name.lower().decode("latin-1"): value.decode("latin-1")
                for name, value in exchange.received.headers
                if name.lower() in (b"traceparent", b"tracestate")
            }
            span = self._tracer.start_span(
                name,
                context=self._parent.extract(carrier) if carrier else None,
                kind=self._client,
                attributes=attributes,
                start_time=began,
            )
            if "error.type" in attributes:
                span.set_status(self._failed)
            span.end(began + int(exchange.seconds * _NANO))

    def stop(self) -> None:
        """Send the waiting spans, for three seconds at most. Blocks."""
        thread = Thread(target=self._provider.shutdown, daemon=True, name="cacheproxy-spans-stop")
        thread.start()
        thread.join(_STOP_SECONDS)
        if thread.is_alive():
            _log.warn("the OpenTelemetry collector took too long; the last spans are lost")


class _ToOurLog(logging.Handler):
    """Writes the SDK's messages to our log, each on one line, without traceback and credentials."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = _one_line(record.getMessage())
        except (TypeError, ValueError):  # a format that does not fit its arguments
            text = "unknown error"
        _log.warn("OpenTelemetry: {text}", text=text)


def _one_line(text: str) -> str:
    return hide_text(" ".join(text.split())[:_LONGEST])
