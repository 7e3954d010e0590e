"""Credentials inside texts: a tool prints the environment, a server repeats the key it refuses.

Found are the credentials in the request's own head, and those with a vendor's known shape. Each is
replaced by text of the same length, so places, lengths and JSON stay valid. Keys in pieces (one
stream delta each) or encoded again (base64 of a text) are not found.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_SHORTEST = 16
"""Bytes of a credential, at least: local servers take any key, like "ollama" or "llama.cpp"."""
_FILLER = b"redacted-"
_PIECE = 1 << 20
"""Bytes searched in one call: in a thread, other threads run between the calls."""

# The beginning of a credential: no letter or digit before it, as in the middle of a name or of
# base64, but for the end of an escape in JSON.
_START = rb"(?:(?<![A-Za-z0-9_+/-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
_SHAPES = tuple(
    (literal, len(literal), re.compile(_START + re.escape(literal) + rest))
    for literal, rest in (
        (b"sk-", rb"[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek ...
        *((literal, rb"[A-Za-z0-9]{30,}") for literal in (b"ghp_", b"gho_", b"ghs_")),
        (b"github_pat_", rb"[A-Za-z0-9_]{30,}"),
        (b"glpat-", rb"[A-Za-z0-9_-]{16,}"),
        (b"hf_", rb"[A-Za-z0-9]{30,}"),
        (b"gsk_", rb"[A-Za-z0-9]{30,}"),
        (b"xox", rb"[abprs]-[A-Za-z0-9-]{16,}"),
        (b"AKIA", rb"[A-Z0-9]{16}(?![A-Za-z0-9+/=])"),
        (b"AIza", rb"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
        # JSON Web Token (RFC 7519): header in base64, claims, signature
        (b"eyJ", rb"[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,}){2,}"),
    )
)
_LITERALS = tuple(literal.decode() for literal, _, _ in _SHAPES)


def hide(data: bytes, known: Collection[bytes] = ()) -> bytes:
    """Return ``data`` of the same length without credentials; itself if there are none.

    ``known``: credentials from ``core.privacy.redact.carried``. A second call changes nothing.
    """
    hidden = data
    for secret in sorted(known, key=len, reverse=True):
        if _find(hidden, secret, 0) >= 0:
            hidden = hidden.replace(secret, _filler(len(secret)))
    for literal, shown, shape in _SHAPES:
        pieces: list[bytes] = []
        done = 0
        at = _find(hidden, literal, 0)
        while at >= 0:
            found = shape.match(hidden, at)
            end = at + shown
            if found is not None and is_odd(found[0][shown:]):
                end = found.end()
                pieces += (hidden[done : at + shown], _filler(end - at - shown))
                done = end
            at = _find(hidden, literal, end)
        hidden = b"".join((*pieces, hidden[done:])) if pieces else hidden
    return hidden


def hide_text(text: str, known: Collection[bytes] = ()) -> str:
    """Return ``text`` without credentials: ``hide`` for a text."""
    if not known and not any(map(text.__contains__, _LITERALS)):
        return text
    data = text.encode("utf-8", "surrogatepass")
    hidden = hide(data, known)
    return text if hidden is data else hidden.decode("utf-8", "surrogatepass")


def _find(data: bytes, wanted: bytes, start: int) -> int:
    for at in range(start, len(data), _PIECE):
        found = data.find(wanted, at, at + _PIECE + len(wanted) - 1)
        if found >= 0:
            return found
    return -1


def _filler(size: int) -> bytes:
    return (_FILLER * (size // len(_FILLER) + 1))[:size]


def is_odd(text: bytes) -> bool:
    """Whether ``text`` may be secret: long, with letters and digits, no "sk-no-key-required"."""
    return (
        len(text) >= _SHORTEST
        and any(48 <= byte <= 57 for byte in text)
        and any(65 <= byte & ~32 <= 90 for byte in text)
    )
