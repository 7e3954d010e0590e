"""One exchange in the words of OpenTelemetry's conventions for generative AI.

Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md ("Inference"; status
Development), and docs/general/recording-errors.md of open-telemetry/semantic-conventions. The
attributes with texts of prompts and answers are opt-in there, and not offered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from cacheproxy.core.dialects.dialect import Endpoint
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried
from cacheproxy.record.exchange import WHOLE, Exchange, Outcome, RecordColumn, body_of, row_of

Value = str | bool | int | float | tuple[str, ...]
_LONGEST = 256
_LARGEST = 1 << 53
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "_OTHER"


def describe(exchange: Exchange) -> tuple[str, dict[str, Value]]:
    """Return the span's name and attributes; a failed exchange has ``error.type`` among them."""
    received = exchange.received
    purpose = _endpoint(exchange).purpose
    generates = bool(str(purpose)) and purpose.evaluates
    method = received.method if received.method in _METHODS else _OTHER
    told = _generated(exchange) if generates else {"http.request.method": method}
    found = _ours(exchange) | told | _ended(exchange)
    known = tuple(carried(received.headers, received.target))
    attributes: dict[str, Value] = {}
    for name, value in found.items():
        if isinstance(value, str):
            attributes[name] = _text(value, known)
        elif value is not None:
            attributes[name] = value
    if not generates:
        return ("HTTP" if method == _OTHER else method), attributes
    named = (attributes.get(f"gen_ai.{key}") for key in ("operation.name", "request.model"))
    return " ".join([str(name) for name in named if name]), attributes


def _endpoint(exchange: Exchange) -> Endpoint:
    return endpoint_of((exchange.sent or exchange.received).path)


def _body(exchange: Exchange) -> Mapping[str, Any]:
    """Return the body sent upstream as JSON, else the received one; {} if neither can be read."""
    return body_of(exchange.sent or exchange.received) or body_of(exchange.received)


def _port(exchange: Exchange) -> int:
    parts = urlsplit(exchange.upstream)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _model(exchange: Exchange) -> str | None:
    model = _body(exchange).get("model")
    return model if isinstance(model, str) and model else None


def _rules(exchange: Exchange) -> tuple[str, ...] | None:
    return tuple([_text(rule, ()) for rule, _, _ in exchange.edits]) or None


def _figure(keys: tuple[str, ...], kind: type[int | float]) -> Callable[[Exchange], Any]:
    """Return a function that returns the last number among a request's ``keys``, or None."""

    def figure(exchange: Exchange) -> float | None:
        found, body = None, _body(exchange)
        for key in keys:
            value: Any = body.get(key)
            if type(value) in (int, kind) and -_LARGEST < value < _LARGEST:
                found = kind(value)
        return found

    return figure


def _first_chunk(exchange: Exchange) -> float | None:
    """Return seconds from sending the request upstream to the first byte of the answer."""
    is_timed = exchange.first_byte is not None and exchange.sent_after is not None
    if not is_timed or _body(exchange).get("stream") is not True:
        return None
    return (exchange.first_byte or 0) - (exchange.sent_after or 0)


def _outcome(exchange: Exchange) -> str:
    return (exchange.outcome or "unknown").replace(" ", "_")


def _error(exchange: Exchange) -> str | None:
    """Return a status code, ``upstream_failed`` or ``refused``; a client's leaving is no error."""
    if exchange.outcome is Outcome.CLIENT_LEFT:
        return None
    if exchange.outcome not in WHOLE:
        return _outcome(exchange)
    return str(exchange.status) if exchange.has_failed else None


OURS = (
    RecordColumn("server.address", lambda each: urlsplit(each.upstream).hostname or ""),
    RecordColumn("server.port", _port),
    RecordColumn("cacheproxy.client", "client"),
    RecordColumn("cacheproxy.outcome", _outcome),
    RecordColumn("cacheproxy.turn", lambda each: each.turn or None),
    RecordColumn("cacheproxy.side", lambda each: each.side if each.turn else None),
    RecordColumn("cacheproxy.verdict", lambda each: each.verdict and each.verdict.judgement),
    RecordColumn("cacheproxy.break.reason", "reason"),
    RecordColumn("cacheproxy.break.lost_tokens", "lost", "tokens"),
    RecordColumn("cacheproxy.rules", _rules),
    RecordColumn("cacheproxy.added_latency", "sent_after", "s"),
)
_MOST_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
MODEL = (
    RecordColumn("gen_ai.operation.name", lambda each: str(_endpoint(each).purpose)),
    RecordColumn("gen_ai.provider.name", lambda each: _endpoint(each).provider),
    RecordColumn("gen_ai.request.model", _model),
    RecordColumn("gen_ai.request.max_tokens", _figure(_MOST_TOKENS, int), "tokens"),
    RecordColumn("gen_ai.request.temperature", _figure(("temperature",), float)),
    RecordColumn("gen_ai.request.top_p", _figure(("top_p",), float)),
    RecordColumn("gen_ai.request.top_k", _figure(("top_k",), float)),
    RecordColumn("gen_ai.request.frequency_penalty", _figure(("frequency_penalty",), float)),
    RecordColumn("gen_ai.request.presence_penalty", _figure(("presence_penalty",), float)),
    RecordColumn("gen_ai.request.seed", _figure(("seed",), int)),
    RecordColumn("gen_ai.request.stream", lambda each: _body(each).get("stream") is True or None),
    RecordColumn("gen_ai.usage.input_tokens", "usage.prompt", "tokens, those cached included"),
    RecordColumn("gen_ai.usage.cache_read.input_tokens", "usage.reused", "tokens"),
    RecordColumn("gen_ai.usage.output_tokens", "usage.output", "tokens"),
    RecordColumn("gen_ai.response.time_to_first_chunk", _first_chunk, "s"),
    RecordColumn("gen_ai.conversation.id", lambda each: each.session and each.session.id),
)
ENDED = (RecordColumn("http.response.status_code", "status"), RecordColumn("error.type", _error))
_ours, _ended = row_of(OURS), row_of(ENDED)
_generated = row_of(MODEL)


def _text(text: str, known: tuple[bytes, ...]) -> str:
    text = hide_text(text[: 4 * _LONGEST], known)[:_LONGEST]
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")[:_LONGEST]
