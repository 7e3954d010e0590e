"""Which headers pass a proxy."""

import pytest

from cacheproxy.core.http1.headers import end_to_end, lasting
from tests import transcript


@pytest.mark.parametrize(
    "name",
    [
        *(b"Connection", b"Keep-Alive", b"Proxy-Connection", b"Proxy-Authenticate", b"Upgrade"),
        *(b"Proxy-Authorization", b"TE", b"Trailer", b"Transfer-Encoding", b"tRANSFER-eNCODING"),
    ],
)
def test_hop_by_hop_headers_do_not_pass(name):
    """RFC 9110, section 7.6.1, in any case; nor the caller's own further names."""
    headers = ((b"A", b"1"), (name, b"x"), (b"HOST", b"x"), (b"B", b"2"))
    assert end_to_end(headers, frozenset({b"host"})) == ((b"A", b"1"), (b"B", b"2"))


TRAVELS = (
    *(b"traceparent", b"X-B3-SpanId", b"X-Request-Id", b"X-Correlation-Id", b"X-Retry-Count"),
    *(b"X-Attempt", b"Request-Timeout", b"Idempotency-Key", b"CF-Ray", b"Date", b"baggage"),
    *(b"Content-Length", b"Accept", b"Accept-Encoding", b"X-Stainless-Retry-Count", b"Host"),
    *(b"X-Codex-Turn-Metadata", b"X-Forwarded-Port", b"Connection", b"Proxy-Authorization"),
)
STAYS = (
    *(b"Anthropic-Beta", b"Anthropic-Version", b"Authorization", b"Cookie", b"User-Agent"),
    *(b"X-Session-Id", b"Content-Type", b"X-Anything", b"OpenAI-Organization", b"X-Update"),
)


@pytest.mark.parametrize("name", TRAVELS)
def test_a_retry_may_travel_in_another_way(name):
    one, other = ((b"A", b"1"), (name, b"x")), ((name.upper(), b"y"), (b"a", b"1"))
    assert lasting(one) == lasting(other) == [(b"a", b"1")]


@pytest.mark.parametrize("name", STAYS)
def test_what_else_a_retry_says_is_the_same(name):
    """In any order; unless the user has said that it does not count."""
    assert lasting(((b"A", b"1"), (name, b"x"))) == lasting(((name.lower(), b"x"), (b"a", b"1")))
    assert lasting(((name, b"x"),)) != lasting(((name, b"y"),))
    assert lasting(((name, b"x"), (name, b"z"))) != lasting(((name, b"x"),))
    ignored = [name.decode().lower()]
    assert lasting(((name, b"x"),), ignored) == lasting(((name, b"y"),), ignored) == []


def test_all_that_is_said():
    transcript.holds("headers.txt", globals())
