r"""A captured exchange as one JSON line, and back.

A line is an object whose first key, ``cacheproxy``, is the format's version. It extends the
simplest form that a recorder can write: ``method, path, headers, body, t``, with headers as an
object or as pairs, and the body as text; the reader accepts both. A body that is not UTF-8 is
base64 under ``body_base64`` (likewise ``sent_body``, ``sent_middle``, ``response_body``). The sent
body is stored as a difference: ``sent_middle`` replaces the body's bytes from ``sent_from`` to
``sent_to``. A ``profile`` also holds for the lines below it.

The standard library's json reads it, since msgspec and orjson refuse lone surrogates (``\ud83d``).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii
from typing import Any

import msgspec

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.document.compare import common_prefix, common_suffix
from cacheproxy.core.prompt.request import Headers
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.servers.profile_text import plain, profile_in
from cacheproxy.record.captured import Applied, Captured
from cacheproxy.record.exchange import Outcome

VERSION = 1
_PIECE = 1 << 16
"""Characters or bytes spelled at once: in a thread, the others get their turn in between."""
_LATEST = 253_402_300_799.0
"""Seconds since the epoch: the end of the year 9999, the last that a date can say."""
_AS_CAPTURED = (
    *("method", "number", "turn", "side", "upstream", "status", "bytes_down", "error"),
    *("sent_after", "head_after", "first_byte", "seconds"),
)
"""The members of a line that stand in Captured as they are."""


class CapturedError(ValueError):
    """Not a captured exchange; the message says why without any of its contents."""


def to_line(captured: Captured, *, repeats: bool = False) -> bytes:
    """Return the JSON line of ``captured``: UTF-8, its newline included.

    ``repeats``: the profile is that of the line before, and left out.
    """
    fields = to_fields(captured)
    if repeats:
        fields.pop("profile", None)
    if captured.sent is not None and captured.sent != captured.body:
        # Rules change a few bytes of many: the rest is there already, in the body as received.
        for key in ("sent_body", "sent_body_base64"):
            fields.pop(key, None)
        fields |= _change(captured.body, captured.sent)
    return b"".join(_pieces(fields))


def from_line(line: str | bytes) -> Captured:
    """Return what a JSON line alone says; raises CapturedError."""
    return from_fields(parse(line))


def to_fields(captured: Captured) -> dict[str, Any]:
    """Return the members of the line's object; what is not known has none."""
    session, verdict = captured.session, captured.verdict
    fields: dict[str, Any] = {
        "cacheproxy": VERSION,
        "method": captured.method,
        "path": captured.target,
        "headers": pairs(captured.headers),
        **_spelled("body", captured.body),
        "t": captured.wall,
        "number": captured.number,
        "client": session.client if session is not None else None,
        "session": session.id if session is not None else None,
        "turn": captured.turn,
        "side": captured.side,
        "upstream": captured.upstream,
        "sent_path": captured.sent_target,
    }
    if captured.sent == captured.body:
        fields["sent_as_received"] = True
    elif captured.sent is not None:
        fields |= _spelled("sent_body", captured.sent)
    fields |= {
        "reports": [_known(msgspec.to_builtins(report)) for report in captured.reports],
        "status": captured.status,
        "response_headers": pairs(captured.response_headers),
    }
    if captured.response_body is not None:
        fields |= _spelled("response_body", captured.response_body)
    fields |= {
        "bytes_down": captured.bytes_down,
        "outcome": captured.outcome,
        "error": captured.error,
        "usage": _known(msgspec.to_builtins(captured.usage)),
        "sent_after": captured.sent_after,
        "head_after": captured.head_after,
        "first_byte": captured.first_byte,
        "seconds": captured.seconds,
        "verdict": _known(msgspec.to_builtins(verdict)),
        "profile": None if captured.profile is None else plain(captured.profile),
    }
    return {key: value for key, value in fields.items() if value is not None}


def from_fields(fields: Any, profile: Profile | None = None) -> Captured:
    """Return what such an object says; raises CapturedError. ``profile``: if it says none."""
    try:
        line = msgspec.convert(fields, _Line)
    except msgspec.ValidationError as error:
        raise CapturedError(f"not a captured exchange: {_plain(str(error))}") from None
    except ValueError:  # a key with half a character
        raise CapturedError("not a captured exchange: a key is not a text") from None
    body = _body("body", line.body, line.body_base64) or b""
    sent = _body("sent_body", line.sent_body, line.sent_body_base64)
    middle = _body("sent_middle", line.sent_middle, line.sent_middle_base64)
    if middle is not None:
        start, end = line.sent_from, line.sent_to
        if not 0 <= start <= end <= len(body):
            raise CapturedError(
                "not a captured exchange: sent_from and sent_to lie outside the body"
            )
        sent = body[:start] + middle + body[end:]
    has_session = line.client is not None and line.session is not None
    return Captured(
        target=line.path,
        headers=_headers(line.headers),
        body=body,
        wall=line.t if 0 <= line.t <= _LATEST else 0.0,
        sent=body if line.sent_as_received else sent,
        sent_target=line.sent_path,
        reports=tuple(line.reports),
        session=Session(line.client or "", line.session or "") if has_session else None,
        response_headers=_headers(line.response_headers),
        response_body=_body("response_body", line.response_body, line.response_body_base64),
        outcome=_convert(line.outcome, Outcome),
        usage=_convert(line.usage, Usage) or Usage(),
        verdict=_convert(line.verdict, Verdict),
        profile=profile if line.profile is None else profile_in(line.profile),
        **{name: getattr(line, name) for name in _AS_CAPTURED},
    )


class _Line(msgspec.Struct):
    """The types of a line's values, as in ``Captured``; keys it does not know are no error."""

    method: str
    path: str
    headers: dict[str, str] | list[tuple[str, str]] = []
    body: str | None = None
    body_base64: str | None = None
    t: float = 0.0
    sent_path: str | None = None
    sent_body: str | None = None
    sent_body_base64: str | None = None
    sent_as_received: bool = False
    sent_from: int = 0
    sent_to: int = 0
    sent_middle: str | None = None
    sent_middle_base64: str | None = None
    reports: list[Applied] = []
    number: int = 0
    client: str | None = None
    session: str | None = None
    turn: int = 0
    side: bool = False
    upstream: str = ""
    status: int | None = None
    response_headers: dict[str, str] | list[tuple[str, str]] = []
    response_body: str | None = None
    response_body_base64: str | None = None
    bytes_down: int | None = None
    outcome: Any = None
    error: str | None = None
    usage: Any = None
    sent_after: float | None = None
    head_after: float | None = None
    first_byte: float | None = None
    seconds: float | None = None
    verdict: Any = None
    profile: Any = None


def parse(text: str | bytes) -> Any:
    """Return what a JSON text says; raises CapturedError, without any of its contents."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        begun = error.doc.lstrip()[:1] in ("{", "")
        cut = begun and (error.pos >= len(error.doc) or error.doc.rstrip()[-1:] != "}")
        raise CapturedError("cut off: not a complete JSON value" if cut else "not JSON") from None
    except UnicodeDecodeError:
        raise CapturedError("not UTF-8") from None
    except (ValueError, RecursionError):
        raise CapturedError("JSON that cannot be read: too deep, or a number too long") from None


def to_bytes(text: str) -> bytes:
    """Return ``text`` in UTF-8; halves of characters, which JSON can spell, survive."""
    return text.encode("utf-8", "surrogatepass")


def _convert(value: Any, kind: Any) -> Any:
    """Return ``value`` as ``kind``, or None: another version may have other words."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, kind)
    except ValueError:
        return None


def _change(body: bytes, sent: bytes) -> dict[str, Any]:
    """Return ``sent`` as what stands in it instead of ``body``'s bytes from one to another."""
    start = common_prefix(body, sent)
    tail = common_suffix(body, sent, min(len(body), len(sent)) - start)
    middle = _spelled("sent_middle", sent[start : len(sent) - tail])
    return {"sent_from": start, "sent_to": len(body) - tail, **middle}


def _spelled(name: str, body: bytes) -> dict[str, str]:
    try:
        return {name: body.decode()}
    except UnicodeDecodeError:
        size = _PIECE // 3 * 3  # a piece in between needs no padding
        pieces = (b64encode(body[at : at + size]) for at in range(0, len(body), size))
        return {f"{name}_base64": b"".join(pieces).decode()}


def _body(name: str, text: str | None, base64: str | None) -> bytes | None:
    if base64 is None:
        return None if text is None else to_bytes(text)
    try:
        return b64decode(base64, validate=True)
    except ValueError:
        raise CapturedError(f"{name}_base64 is not base64") from None


def pairs(headers: Headers) -> list[tuple[str, str]]:
    """Return ``headers`` as text."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _headers(headers: dict[str, str] | list[tuple[str, str]]) -> Headers:
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((header_bytes(name), header_bytes(value)) for name, value in pairs)


def header_bytes(text: str) -> bytes:
    """Return a header's name or value as it was on the wire: Latin-1, else UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return to_bytes(text)


def _known(value: Any) -> Any:
    """Return ``value`` without the members that are None."""
    if not isinstance(value, dict):
        return value
    return {key: _known(inner) for key, inner in value.items() if inner is not None}


def _pieces(fields: dict[str, Any]) -> Iterator[bytes]:
    separator = b"{"
    for key, value in fields.items():
        yield separator + json.dumps(key).encode() + b": "
        if isinstance(value, str):
            yield b'"'
            for start in range(0, len(value), _PIECE):
                yield _string(value[start : start + _PIECE])[1:-1]
            yield b'"'
        else:
            yield json.dumps(value).encode()
        separator = b", "
    yield b"}\n"


def _string(text: str) -> bytes:
    """Return ``text`` as a JSON string; msgspec, five times faster, refuses half characters."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return encode_basestring_ascii(text).encode()


def _plain(message: str) -> str:
    """Return a validation error without its dollar signs: what is wrong, and under which key."""
    wrong, _, place = message.replace("`", "").partition(" - at $.")
    return f"{place}: {wrong}" if place else wrong
