"""The answer's entries in the record of an exchange: usage, errors, emptiness."""

from __future__ import annotations

from cacheproxy.core.adapt.refusal import ErrorReader, words
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of, spoken
from cacheproxy.core.http1.content_coding import codings_of, decoded
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import A_PAGE, Exchange, Outcome

Tap = UsageReader | ErrorReader
_IN_WORDS = (Purpose.CHAT, Purpose.TEXT)
"""Purposes of requests whose answers have text or tool calls."""
_NO_WORDS = "its answer is an error without a message"


def tap_of(
    head: ResponseHead, record: Exchange, keys: frozenset[bytes], *, chunked: bool
) -> Tap | None:
    """Return the reader of a copy of the answer, None for none.

    ``keys``: the proxy's own, which must not be shown. ``chunked``: the body's framing has an end.
    """
    if head.status >= 400:
        return ErrorReader(record.response_headers, keys)
    if not record.turn:
        return None
    # A translation finds the end of its stream by itself; a framed body has its own.
    has_no_end = head.length is None and not chunked
    return UsageReader(
        head.content_type.decode("latin-1"),
        codings=codings_of(head.headers) if head.values(b"content-encoding") else (),
        ending=ending_of(record.received.path) if has_no_end else None,
    )


def take_tap(record: Exchange, tap: Tap | None, keys: frozenset[bytes]) -> None:
    """Record what ``tap`` has read. ``keys``: the proxy's own, which must not be shown."""
    if isinstance(tap, UsageReader):
        if not record.held:  # else the usage counts for the retry
            record.usage = tap.close()
            if record.outcome is Outcome.COMPLETE:
                _take_failure(record, tap, keys)
    elif tap is not None and record.outcome is Outcome.COMPLETE:
        record.error = tap.said(record.received, record.sent or record.received)


def _take_failure(record: Exchange, tap: UsageReader, keys: frozenset[bytes]) -> None:
    """Record the failure of an answer: an error in its stream, a web page, no text at all."""
    if tap.failure is not None:
        record.outcome = Outcome.UPSTREAM_FAILED
        asked = (record.received, record.sent or record.received)
        record.error = words(tap.failure, asked, keys) or _NO_WORDS
    elif tap.is_page:
        record.outcome, record.error = Outcome.UPSTREAM_FAILED, A_PAGE
    elif tap.is_silent and _may_say(record.received):
        record.outcome = Outcome.EMPTY


def _may_say(request: Request) -> bool:
    """Whether the answer to ``request`` should have text or tool calls."""
    is_asked = endpoint_of(request.path).purpose in _IN_WORDS
    return is_asked and spoken(request.path).may_say(request.json or {})


def shows_key(record: Exchange, body: bytes, keys: frozenset[bytes]) -> bool:
    """Whether an error's ``body`` quotes one of the proxy's ``keys``: it must not be recorded."""
    keys = keys if record.has_failed else frozenset()
    plain = decoded(body, record.response_headers) if keys else body
    return any(key in plain for key in keys)
