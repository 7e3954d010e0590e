"""The allow-list of header names and query keys whose values may be stored.

Law 7: credentials are never stored. A list of secret names would miss the next vendor's header, so
only values that are known to be harmless, and of use for naming sessions and for diagnosis, are
stored; all others become ``redacted``. A second pass changes nothing. Credentials inside an allowed
value or a body are left to ``cacheproxy.core.privacy.credentials``.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from cacheproxy.core.http1.headers import AGENT_ID, SESSION_ID
from cacheproxy.core.privacy.credentials import hide, hide_text, is_odd
from cacheproxy.core.prompt.request import Headers

REDACTED = "redacted"

_NAMES = frozenset(
    {
        # the body's form, and the forms that the client accepts
        *("accept", "accept-encoding", "accept-language", "cache-control", "content-encoding"),
        *("content-length", "content-type", "transfer-encoding", "vary"),
        # both ends, and the hops between them
        *("connection", "date", "host", "retry-after", "server", "user-agent", "via", "x-app"),
        *("originator", "x-goog-api-client", "x-powered-by", "x-proxy-cache"),
        # ids of the conversation (see cacheproxy.core.conversation.session)
        *("session-id", "session_id", "thread-id", "x-session-id", "x-session-affinity"),
        *("x-parent-session-id", "x-openai-subagent", "conversation_id", "conversation-id"),
        # ids of the request, for the server's own log
        *("request-id", "x-request-id", "x-client-request-id", "traceparent"),
        # dialects
        *("anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access"),
        *("openai-beta", "openai-version", "openai-model", "openai-processing-ms"),
    }
)
_OWN = re.compile(rb"x-.+-(?:thread-id|window-id|beta-features)")
"""Pattern of clients' own headers for the id of a conversation, or for beta features."""
_STARTS = ("x-stainless-", "x-ratelimit-", "anthropic-ratelimit-")

_KEYS = frozenset(
    {
        *("action", "alt", "api-version", "beta", "limit", "model", "stream", "verbose"),
        # llama-server's own
        *("autoload", "fail_on_no_slot", "id_slot"),
    }
)
# A header's name alone may be a secret too, put on the wrong side of the colon.
_PLAIN_NAME = re.compile(r"[A-Za-z]{1,20}(?:[_-][A-Za-z]{1,20}){0,7}")
# An allowed key's value must be plain: "alt=sse;key=…" or "alt=sse?key=…" is not.
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:/+-]{0,80}")
# A usual path, with no step as long as a credential.
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_.-]{0,15})*")
# A key alone, or one with a digit, may be the secret itself.
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z_.$-]{0,31}")
# Words in the name of a header or query key with a credential.
_SECRET_NAME = re.compile(r"auth|cookie|key|token|secret|passw|credential|signature", re.IGNORECASE)
_BREAKS = re.compile(rb"[\s;,=\"\\]+")
_USER = re.compile(r"(?<=//)[^/?#]*@(?:/[^/?#]*@)*|^[^/?#]*@")
_PARAMETERS = re.compile(r";[^/?#]*")


def carried(headers: Headers, target: str) -> frozenset[bytes]:
    """Return the credentials in a head that are odd enough to be recognized in a text."""
    found: set[bytes] = set()
    for name, value in headers:
        if _holds_secret(name):
            found.update(_BREAKS.split(value))
            found.update(_password(value))
        if not _is_plain_name(name):
            found.add(name)
    found.update(text.encode("utf-8", "surrogatepass") for text in _in_target(target))
    found |= {unquote_to_bytes(each) for each in found if b"%" in each}
    return frozenset(each for each in found if is_odd(each))


def redact_headers(headers: Headers, known: Collection[bytes] = ()) -> Headers:
    """Return ``headers`` with the values of all but the allowed names ``redacted``.

    Names that do not look like one are redacted too. ``known``: credentials to hide in allowed
    values.
    """
    return tuple(_header(name, value, known) for name, value in headers)


def redact_target(target: str, known: Collection[bytes] = ()) -> str:
    """Return a request target or URL without parts that may be secret.

    Only allowed keys of the query keep their values. A user and password before the host,
    parameters of the path (``;id=…``, RFC 3986, section 3.3) and a fragment are removed.
    ``known``: as in ``redact_headers``.
    """
    path, question, query = target.partition("?")
    if not _PLAIN_PATH.fullmatch(path):
        path = path.partition("#")[0]
        path = _PARAMETERS.sub(f";{REDACTED}", _USER.sub("", path))
        # Step by step: behind a slash, which is common in base64, no credential would be found.
        path = "/".join(hide_text(step, known) for step in path.split("/"))
    if not question:
        return path
    return f"{path}?{'&'.join(_pair(pair) for pair in query.split('&'))}"


def is_plain(target: str) -> bool:
    """Whether ``redact_target`` leaves ``target`` unchanged, whatever credentials are known."""
    return _PLAIN_PATH.fullmatch(target) is not None


def _header(name: bytes, value: bytes, known: Collection[bytes]) -> tuple[bytes, bytes]:
    """Return the header, ``redacted`` unless allowed by name; ``known``: credentials to hide."""
    if not _is_allowed(name):
        return (name if _is_plain_name(name) else REDACTED.encode()), REDACTED.encode()
    if name.lower() == b"host":
        value = value.rpartition(b"@")[2]
    return name, hide(value, known)


def _in_target(target: str) -> Iterator[str]:
    """Yield the possible credentials in a request target: texts that ``redact_target`` hides."""
    path, _, query = target.partition("?")
    if not _PLAIN_PATH.fullmatch(path):
        yield from _in_path(path)
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if not value or _SECRET_NAME.search(key):
            yield value or key


def _in_path(path: str) -> Iterator[str]:
    for user in _USER.findall(path):
        yield from user[:-1].split(":")
    path = _USER.sub("", path)
    for parameter in _PARAMETERS.findall(path):
        yield from re.split("[;=]", parameter)
    steps = _PARAMETERS.sub("", path).split("/")
    yield from (step for step in steps if hide_text(step) != step)


@lru_cache(256)
def _holds_secret(name: bytes) -> bool:
    return not _is_allowed(name) and _SECRET_NAME.search(name.decode("latin-1")) is not None


@lru_cache(256)
def _is_plain_name(name: bytes) -> bool:
    return _PLAIN_NAME.fullmatch(name.decode("latin-1")) is not None


def _is_allowed(name: bytes) -> bool:
    lowered = name.decode("latin-1").lower()
    return lowered in _NAMES or lowered.startswith(_STARTS) or _names_session(name.lower(), lowered)


def _names_session(name: bytes, text: str) -> bool:
    """Whether a header's value names a session, which is stored anyway, a subagent or a thread."""
    names = SESSION_ID.fullmatch(name) or AGENT_ID.fullmatch(name) or _OWN.fullmatch(name)
    return names is not None and _is_plain_name(name) and _SECRET_NAME.search(text) is None


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


def _password(value: bytes) -> list[bytes]:
    """Return user and password of ``Basic`` credentials (RFC 7617, section 2), [] for others."""
    scheme, _, coded = value.strip().partition(b" ")
    if scheme.lower() != b"basic":
        return []
    try:
        plain = b64decode(coded, validate=True)
    except ValueError:
        return []
    return [plain, *plain.split(b":", 1)]
