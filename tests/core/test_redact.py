"""What of a request's head may be stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.redact import REDACTED, redact_headers, redact_target
from cacheproxy.core.request import Request
from cacheproxy.core.session import session_of

SECRET = "kanarienvogel"


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"),
        *("proxy-authorization", "proxy-authenticate", "x-auth-token", "x-amz-security-token"),
        *("openai-organization", "openai-project", "anthropic-organization-id", "referer"),
        *("location", "x-forwarded-for", "x-codex-turn-metadata", "x-codex-installation-id"),
        *("x-some-vendor-of-tomorrow", "authorization ", "x-api-key\x00", "\xff", ""),
    ],
)
def test_what_is_not_on_the_list_loses_its_value(name):
    """In any spelling; the name itself tells that it was there."""
    for spelling in (name, name.upper(), name.title()):
        header = (spelling.encode("latin-1", "replace"), SECRET.encode())
        assert redact_headers((header,)) == ((header[0], b"redacted"),)


@pytest.mark.parametrize(
    "name",
    [
        *("user-agent", "content-type", "content-length", "accept", "host", "x-app"),
        *("anthropic-version", "anthropic-beta", "openai-beta", "x-stainless-arch"),
        *("x-claude-code-session-id", "x-claude-code-agent-id", "session_id", "session-id"),
        *("x-session-affinity", "thread-id", "x-openai-subagent", "x-parent-session-id"),
        *("traceparent", "retry-after", "anthropic-ratelimit-tokens-remaining", "request-id"),
    ],
)
def test_what_names_a_session_or_helps_to_diagnose_stays(name):
    """In any spelling, byte for byte."""
    for spelling in (name, name.upper(), name.title()):
        header = (spelling.encode(), b"v \xff")
        assert redact_headers((header,)) == (header,)


def test_order_and_repetition_of_headers_survive():
    """Each value is judged on its own."""
    headers = ((b"Accept", b"a"), (b"Cookie", b"x"), (b"accept", b"b"), (b"Cookie", b"y"))
    hidden = REDACTED.encode()
    assert redact_headers(headers) == (
        (b"Accept", b"a"),
        (b"Cookie", hidden),
        (b"accept", b"b"),
        (b"Cookie", hidden),
    )


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1beta/models/g:stream?alt=sse", "/v1beta/models/g:stream?alt=sse"),
        ("/x?api-version=2025-04-01-preview&limit=5", "/x?api-version=2025-04-01-preview&limit=5"),
        ("/slots/0?action=save", "/slots/0?action=save"),
        ("/x?", "/x?"),
        ("/x?beta", "/x?beta"),
        ("/x?a&&b", "/x?redacted&&redacted"),
        ("*", "*"),
        ("", ""),
        (f"/x?key={SECRET}", "/x?key=redacted"),
        (f"/x?alt=sse&key={SECRET}&beta=true", "/x?alt=sse&key=redacted&beta=true"),
        (f"/x?KEY={SECRET}&%6bey={SECRET}", "/x?KEY=redacted&redacted=redacted"),
        (f"/x?{SECRET}", "/x?redacted"),
        (f"/x?{SECRET}=", "/x?redacted"),
        (f"/x?{SECRET}1=2", "/x?redacted=redacted"),
        (f"/x?alt=sse;key={SECRET}", "/x?alt=redacted"),
        (f"/x?alt=sse?key={SECRET}", "/x?alt=redacted"),
        (f"/x?alt=sse#key={SECRET}", "/x?alt=redacted"),
        (f"/x?alt=%6b{SECRET}", "/x?alt=redacted"),
        (f"/x?model={'k' * 81}", "/x?model=redacted"),
        (f"/x#{SECRET}", "/x"),
        (f"/x;key={SECRET}/y;{SECRET}", "/x;redacted/y;redacted"),
        (f"http://me:{SECRET}@host/x?key={SECRET}", "http://host/x?key=redacted"),
        (f"//me:{SECRET}@host/x", "//host/x"),
        (f"me:{SECRET}@host:80", "host:80"),
    ],
)
def test_targets(target, kept):
    """Known keys with plain values stay; the rest of the query, users and fragments go."""
    assert redact_target(target) == kept


@given(st.text(alphabet="abkey=&?;#/@:.%1", max_size=60))
def test_redacting_a_target_twice_changes_nothing(target):
    """What was read back from disk is redacted once more."""
    once = redact_target(target)
    assert redact_target(once) == once


@given(
    st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30))),
)
def test_redacting_headers_twice_changes_nothing(headers):
    """Neither in number nor in order."""
    once = redact_headers(tuple(headers))
    assert redact_headers(once) == once
    assert [name for name, _ in once] == [name for name, _ in headers]


def test_sessions_are_named_as_before(captured):
    """Nothing that tells one conversation from another is lost."""
    for requests in captured.values():
        for request in requests:
            kept = Request(
                request.method,
                redact_target(request.target),
                redact_headers(request.headers),
                request.body,
            )
            assert session_of(kept) == session_of(request)
            assert kept.dialect == request.dialect
