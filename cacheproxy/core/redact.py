"""What of a request's head may be stored: an allow-list of header names and query keys.

Law 7: credentials are never stored. A list of what is secret would forget the next vendor's
header, so only what is known to be harmless, and of use for naming sessions and for diagnosis,
keeps its value; the rest becomes ``redacted``. Applying it twice changes nothing.
"""

from __future__ import annotations

import re

from cacheproxy.core.request import Headers

REDACTED = "redacted"

_NAMES = frozenset(
    {
        # what the body is, and what the client can read
        *("accept", "accept-encoding", "accept-language", "cache-control", "content-encoding"),
        *("content-length", "content-type", "transfer-encoding", "vary"),
        # who is there, and how far the way was
        *("connection", "date", "host", "retry-after", "server", "user-agent", "via", "x-app"),
        *("originator", "x-goog-api-client", "x-powered-by", "x-proxy-cache"),
        # which conversation it is (see cacheproxy.core.session)
        *("session-id", "session_id", "thread-id", "x-session-id", "x-session-affinity"),
        *("x-parent-session-id", "x-claude-code-session-id", "x-claude-code-agent-id"),
        *("x-openai-subagent", "x-codex-parent-thread-id", "x-codex-window-id"),
        *("x-codex-beta-features", "conversation_id", "conversation-id"),
        # which request it is, for the server's own log
        *("request-id", "x-request-id", "x-client-request-id", "traceparent"),
        # dialects
        *("anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access"),
        *("openai-beta", "openai-version", "openai-model", "openai-processing-ms"),
    }
)
_STARTS = ("x-stainless-", "x-ratelimit-", "anthropic-ratelimit-")

_KEYS = frozenset(
    {
        *("action", "alt", "api-version", "beta", "limit", "model", "stream", "verbose"),
        # llama-server's own
        *("autoload", "fail_on_no_slot", "id_slot"),
    }
)
# An allowed key's value must be plain: "alt=sse;key=…" or "alt=sse?key=…" is not.
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:/+-]{0,80}")
# A key alone, or one with a digit, may be the secret itself.
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z_.$-]{0,31}")
_USER = re.compile(r"(?<=//)[^/?#]*@|^[^/?#]*@")
_PARAMETERS = re.compile(r";[^/?#]*")


def redact_headers(headers: Headers) -> Headers:
    """Return ``headers`` with the values of all but the allowed names ``redacted``."""
    hidden = REDACTED.encode()
    return tuple((name, value if _is_allowed(name) else hidden) for name, value in headers)


def redact_target(target: str) -> str:
    """Return a request target or URL without what may be secret in it.

    Of the query's pairs only the allowed keep their values. A user and password before the host,
    parameters of the path (``;id=…``, RFC 3986, section 3.3) and a fragment go.
    """
    path, question, query = target.partition("?")
    path = path.partition("#")[0]
    path = _PARAMETERS.sub(f";{REDACTED}", _USER.sub("", path))
    if not question:
        return path
    return f"{path}?{'&'.join(_pair(pair) for pair in query.split('&'))}"


def _is_allowed(name: bytes) -> bool:
    lowered = name.decode("latin-1").lower()
    return lowered in _NAMES or lowered.startswith(_STARTS)


def _pair(pair: str) -> str:
    key, _, value = pair.partition("=")
    if not pair:
        return ""
    if not value and key not in _KEYS:
        return REDACTED  # "?KEY", or "?KEY=" as some rewrite it
    if not _PLAIN_KEY.fullmatch(key):
        return f"{REDACTED}={REDACTED}"
    if key not in _KEYS or not _PLAIN_VALUE.fullmatch(value):
        return f"{key}={REDACTED}"
    return pair
