"""One exchange in the words of OpenTelemetry's conventions for generative AI.

Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md ("Inference"; status
Development), and docs/general/recording-errors.md of open-telemetry/semantic-conventions.
Nothing of prompts and answers: those attributes are opt-in there, and not offered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried
from cacheproxy.record.body import body_of
from cacheproxy.record.exchange import Exchange, Outcome

Value = str | bool | int | float | tuple[str, ...]
_LONGEST = 256
_NUMBERS = (
    ("max_tokens", "gen_ai.request.max_tokens", int),
    ("max_completion_tokens", "gen_ai.request.max_tokens", int),
    ("max_output_tokens", "gen_ai.request.max_tokens", int),
    ("temperature", "gen_ai.request.temperature", float),
    ("top_p", "gen_ai.request.top_p", float),
    ("top_k", "gen_ai.request.top_k", float),
    ("frequency_penalty", "gen_ai.request.frequency_penalty", float),
    ("presence_penalty", "gen_ai.request.presence_penalty", float),
    ("seed", "gen_ai.request.seed", int),
)
_LARGEST = 1 << 53
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Described:
    """A span's name and attributes."""

    name: str  #: as the conventions have it
    attributes: Mapping[str, Value]  #: likewise
    error: str | None
    """The value of ``error.type``: a status code as text, ``upstream_failed`` or ``refused``; None:
    it went well. A client that leaves is no error."""


def describe(exchange: Exchange) -> Described:
    """Return what is said of ``exchange``."""
    received = exchange.received
    sent = exchange.sent or received
    known = tuple(carried(received.headers, received.target))
    attributes = _server(exchange.upstream) | _own(exchange, known)
    endpoint = endpoint_of(sent.path)
    operation = str(endpoint.purpose)
    if not (operation and endpoint.purpose.evaluates):
        method = received.method if received.method in _METHODS else "_OTHER"
        attributes["http.request.method"] = method
        name = "HTTP" if method == "_OTHER" else method
    else:
        body = body_of(sent) or body_of(received)
        model = body.get("model")
        name = operation
        attributes["gen_ai.operation.name"] = operation
        attributes["gen_ai.provider.name"] = endpoint.provider
        if isinstance(model, str) and model:
            attributes["gen_ai.request.model"] = _text(model, known)
            name = f"{operation} {attributes['gen_ai.request.model']}"
        attributes |= _asked(body) | _used(exchange, streamed=body.get("stream") is True)
        if exchange.session is not None:
            attributes["gen_ai.conversation.id"] = _text(exchange.session.id, known)
    if exchange.status is not None:
        attributes["http.response.status_code"] = exchange.status
    error = _error(exchange)
    if error is not None:
        attributes["error.type"] = error
    return Described(name, attributes, error)


def _server(upstream: str) -> dict[str, Value]:
    parts = urlsplit(upstream)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname or "", "server.port": port}


def _own(exchange: Exchange, known: tuple[bytes, ...]) -> dict[str, Value]:
    verdict = exchange.verdict
    found: dict[str, Value] = {
        "cacheproxy.client": _text(exchange.client, known),
        "cacheproxy.outcome": _word(exchange.outcome),
    }
    if exchange.turn:
        found["cacheproxy.turn"] = exchange.turn
        found["cacheproxy.side"] = exchange.side
    if verdict is not None:
        found["cacheproxy.verdict"] = str(verdict.judgement)
        if verdict.reason is not None:
            found["cacheproxy.break.reason"] = str(verdict.reason)
        if verdict.lost is not None and verdict.reason is not None:
            found["cacheproxy.break.lost_tokens"] = verdict.lost.tokens
    rules = tuple(_text(report.rule, ()) for report in exchange.reports if report.edits)
    if rules:
        found["cacheproxy.rules"] = rules
    if exchange.sent_after is not None:
        found["cacheproxy.added_latency"] = exchange.sent_after
    return found


def _asked(body: Mapping[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key, name, kind in _NUMBERS:
        value: Any = body.get(key)
        if type(value) in (int, kind) and -_LARGEST < value < _LARGEST:
            found[name] = kind(value)
    if body.get("stream") is True:
        found["gen_ai.request.stream"] = True
    return found


def _used(exchange: Exchange, *, streamed: bool) -> dict[str, Value]:
    """Cached tokens are part of the input tokens, there as here."""
    usage = exchange.usage
    counts = {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.cache_read.input_tokens": usage.reused,
        "gen_ai.usage.output_tokens": usage.output,
    }
    found: dict[str, Value] = {name: n for name, n in counts.items() if n is not None}
    if streamed and exchange.first_byte is not None and exchange.sent_after is not None:
        found["gen_ai.response.time_to_first_chunk"] = exchange.first_byte - exchange.sent_after
    return found


def _error(exchange: Exchange) -> str | None:
    if exchange.outcome is Outcome.CLIENT_LEFT:
        return None
    if exchange.outcome is not Outcome.COMPLETE:
        return _word(exchange.outcome)
    status = exchange.status
    return str(status) if status is not None and status >= 400 else None


def _word(outcome: Outcome | None) -> str:
    return (outcome or "unknown").replace(" ", "_")


def _text(text: str, known: tuple[bytes, ...]) -> str:
    text = hide_text(text[: 4 * _LONGEST], known)[:_LONGEST]
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")[:_LONGEST]
