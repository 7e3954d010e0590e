"""An exchange as it may be kept on disk, and shown from there: without credentials."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cacheproxy.core.http1.content_coding import decoded
from cacheproxy.core.privacy.credentials import hide
from cacheproxy.core.privacy.redact import carried, redact_headers, redact_target
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.record.exchange import Exchange


def redacted(exchange: Exchange) -> Exchange:
    """Return ``exchange`` without credentials, and without what its verdict quotes of the bodies.

    ``core.privacy.credentials`` says what is found in bodies. One whose coding hid a credential
    stands without that coding.
    """
    received, sent, verdict = exchange.received, exchange.sent, exchange.verdict
    given, answered = received.headers, exchange.response_headers
    known = carried(given, received.target) | carried(answered, exchange.upstream)
    body, shown = _hidden(received.body, given, known)
    target, shown = redact_target(received.target, known), redact_headers(shown, known)
    kept = Request(received.method, target, shown, body)
    if sent is not None:
        is_same = sent.body is received.body or sent.body == received.body
        went = body if is_same else _hidden(sent.body, given, known)[0]
        where = target
        if sent.target != received.target:
            where = redact_target(sent.target, known)
        sent = kept if is_same and where == target else Request(kept.method, where, shown, went)
    response_body = exchange.response_body
    if response_body is not None:
        response_body, answered = _hidden(response_body, answered, known)
    if verdict is not None and verdict.where is not None:
        verdict = replace(verdict, where=replace(verdict.where, was="", now=""))
    return replace(
        exchange,
        received=kept,
        sent=sent,
        upstream=redact_target(exchange.upstream, known),
        response_headers=redact_headers(answered, known),
        response_body=response_body,
        verdict=verdict,
    )


def _hidden(body: bytes, headers: Headers, known: Collection[bytes]) -> tuple[bytes, Headers]:
    """Return ``body`` and its ``headers`` without credentials in the body."""
    plain = decoded(body, headers)
    hidden = hide(plain, known)
    if hidden is plain:
        return body, headers
    if plain is not body:
        headers = tuple(pair for pair in headers if pair[0].lower() != b"content-encoding")
    return hidden, headers
