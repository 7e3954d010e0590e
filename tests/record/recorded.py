"""Recorded exchanges for tests, as they are read from a capture."""

from dataclasses import replace

from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange, redacted


def recorded(method, target, headers=(), body=b"", **fields):
    """An exchange as a capture has it: without credentials."""
    return redacted(Exchange(Request(method, target, headers, body), **fields)).finish()


def but(exchange, **changes):
    """The same with another body, or other headers."""
    return replace(exchange, received=replace(exchange.received, **changes))
