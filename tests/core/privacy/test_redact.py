"""What of a request's head may be stored."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.privacy.redact import REDACTED, carried, redact_headers, redact_target
from cacheproxy.core.prompt.request import Request

SECRET = "kanarienvogel"


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"),
        *("proxy-authorization", "proxy-authenticate", "x-auth-token", "x-amz-security-token"),
        *("openai-organization", "openai-project", "anthropic-organization-id", "referer"),
        *("location", "x-forwarded-for", "x-codex-turn-metadata", "x-codex-installation-id"),
        *("x-some-vendor-of-tomorrow", "x-cacheproxy-token", "x-auth-session-id"),
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
        *("x-any-session-id", "x-any-agent-id", "x-any-parent-thread-id", "x-any-window-id"),
        *("x-any-beta-features", "x-codex-window-id"),
        *("traceparent", "retry-after", "anthropic-ratelimit-tokens-remaining", "request-id"),
    ],
)
def test_what_names_a_session_or_helps_to_diagnose_stays(name):
    """In any spelling, byte for byte."""
    for spelling in (name, name.upper(), name.title()):
        header = (spelling.encode(), b"v \xff")
        assert redact_headers((header,)) == (header,)


@pytest.mark.parametrize(
    "name",
    [
        *("authorization ", "x-api-key\x00", "\xff", "", SECRET * 2, f"x-{SECRET}-7f3a9b"),
        *(f"x-{SECRET}-7f3a9b-session-id", f"x-{SECRET * 2}-agent-id"),
        *(f"x-{SECRET}-7f3a9b-window-id", f"x-{SECRET * 2}-thread-id"),
        *(f"Bearer {SECRET}", "sk-ant-api03-7f3a9b", "x" * 21, "-".join("x" * 9)),
    ],
)
def test_a_name_that_is_none_is_not_kept(name):
    """A key may stand on the wrong side of the colon."""
    header = (name.encode("latin-1"), SECRET.encode())
    assert redact_headers((header,)) == ((b"redacted", b"redacted"),)


KEY = "sk-ant-api03-7f3a9bcc41d0"


@pytest.mark.parametrize(
    ("headers", "target", "found"),
    [
        ([("Authorization", f"Bearer {KEY}")], "/", [KEY]),
        ([("X-Api-Key", KEY), ("x-goog-API-key", KEY[::-1])], "/", [KEY, KEY[::-1]]),
        ([("Cookie", f"a=b; sid={KEY}; c=d")], "/", [KEY]),
        ([("Set-Cookie", f'sid="{KEY}"; Path=/; Max-Age=1')], "/", [KEY]),
        ([], f"/x?key={KEY}&stream=true", [KEY]),
        ([], f"/x?{KEY}", [KEY]),
        ([], "/x?api_key=sk%2Dant-7f3a9bcc41d0", ["sk%2Dant-7f3a9bcc41d0", "sk-ant-7f3a9bcc41d0"]),
        ([], f"http://me:{KEY}@host/x", [KEY]),
        ([], f"/x/{KEY}/y", [KEY]),
        ([], f"/x;a={KEY};b=1/y;{KEY[::-1]}", [KEY, KEY[::-1]]),
        ([(f"X-{KEY}", "1")], "/", [f"X-{KEY}"]),
        ([("X-Api-Key", "not-needed"), ("Authorization", "Bearer llama.cpp")], "/", []),
        ([("Authorization", "Bearer sk-no-key-required")], "/", []),
        ([("X-Forwarded-For", KEY), ("X-Session-Id", KEY)], f"/x?id_slot={KEY}", []),
        ([("anthropic-ratelimit-tokens-reset", "2026-11-21T12:00:00Z")], "/", []),
    ],
)
def test_the_credentials_that_a_head_carries(headers, target, found):
    """What could be told from any other text, wherever it is met again."""
    given = tuple((name.encode(), value.encode()) for name, value in headers)
    assert carried(given, target) == {each.encode() for each in found}


def test_the_password_of_basic_is_carried_as_well():
    """It stands in base64."""
    value = b"Basic " + b64encode(f"me:{KEY}".encode())
    assert KEY.encode() in carried(((b"Proxy-Authorization", value),), "/")
    assert carried(((b"Authorization", b"Basic \xff%%"),), "/") == frozenset()


def test_allowed_values_lose_credentials_too():
    """One that the head carries elsewhere, one of a known shape, a user before the host."""
    headers = ((b"User-Agent", f"x/1 {KEY} tok-7f3a9bcc41d00".encode()), (b"Host", b"me:pw@h:80"))
    (_, agent), (_, host) = redact_headers(headers, {b"tok-7f3a9bcc41d00"})
    assert agent == b"x/1 sk-redacted-redacted-reda redacted-redacted"
    assert len(agent) == len(headers[0][1])
    assert host == b"h:80"
    assert redact_target(f"/v1/{KEY}/messages?beta=true").startswith("/v1/sk-redacted-")


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
        (f"//@/me:{SECRET}@host/v1", "//host/v1"),
    ],
)
def test_targets(target, kept):
    """Known keys with plain values stay; the rest of the query, users and fragments go."""
    assert redact_target(target) == kept


@given(st.text("abkey=&?;#/@:.%1", max_size=60))
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
    assert len(once) == len(headers)


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
