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
from dataclasses import replace
from json.encoder import encode_basestring_ascii
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import asdict

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import NOTHING, Usage
from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.document.compare import common_prefix, common_suffix
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.kinds.profile import Profile, plain, profile_in
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.record.exchange import Exchange, Outcome, RecordColumn, redacted, row_of

VERSION = 1
_PIECE = 1 << 16
"""Characters or bytes serialised in one step: between steps of a thread, other threads run."""
_LATEST = 253_402_300_799.0
"""Seconds since the epoch at the end of the year 9999, the last that a date can name."""


class CapturedError(ValueError):
    """A text is no captured exchange; the message gives the reason without any of its contents."""


def to_line(exchange: Exchange, *, repeats: bool = False) -> bytes:
    """Return the JSON line of ``exchange``: UTF-8, without credentials, with its newline.

    ``repeats``: the profile is that of the line before, and is left out.
    """
    kept = redacted(exchange)
    fields = _row(kept)
    if repeats:
        fields["profile"] = None
    sent, body = fields["sent_body"], kept.received.body
    if sent is not None:
        # Rules change a few bytes of many: the rest is already in the body as received.
        fields["sent_body"] = None
        start = common_prefix(body, sent)
        tail = common_suffix(body, sent, min(len(body), len(sent)) - start)
        middle = sent[start : len(sent) - tail]
        fields |= {"sent_from": start, "sent_to": len(body) - tail, "sent_middle": middle}
    return b"".join(_pieces(_spelled(fields)))


def to_fields(exchange: Exchange) -> dict[str, Any]:
    """Return the known members of the line's object; ``exchange``: a result of ``redacted``."""
    return _spelled(_row(exchange))


def from_line(line: str | bytes) -> Exchange:
    """Return the exchange of a single JSON line; raises CapturedError."""
    return from_fields(parse(line))


def from_fields(fields: Any, profile: Profile | None = None) -> Exchange:
    """Return the exchange of a line's object; raises CapturedError. ``profile``: if it has none."""
    try:
        line: Any = msgspec.convert(fields, _Line)
    except msgspec.ValidationError as error:
        wrong, _, place = str(error).replace("`", "").partition(" - at $.")
        said = f"{place}: {wrong}" if place else wrong
        raise CapturedError(f"not a captured exchange: {said}") from None
    except ValueError:  # a key with a lone surrogate
        raise CapturedError("not a captured exchange: a key is not a text") from None
    received = Request(line.method, line.path, _headers(line.headers), _body(line, "body") or b"")
    body = _restored(line, received.body)
    sent = (
        None if body is None else replace(received, target=line.sent_path or line.path, body=body)
    )
    has_session = line.client is not None and line.session is not None
    return redacted(
        Exchange(
            received,
            wall=line.t if 0 <= line.t <= _LATEST else 0.0,
            sent=sent,
            reports=tuple(  # the old and new texts are in the bodies
                RuleReport(one.rule, tuple([Edit(path, "", "") for path in one.paths]), one.error)
                for one in line.reports
            ),
            session=Session(line.client, line.session) if has_session else None,
            response_headers=_headers(line.response_headers),
            response_body=_body(line, "response_body"),
            outcome=_convert(line.outcome, Outcome),
            usage=_convert(line.usage, Usage) or NOTHING,
            verdict=_convert(line.verdict, Verdict),
            profile=profile if line.profile is None else profile_in(line.profile),
            seconds=line.seconds or 0.0,
            **{name: getattr(line, name) for name in _AS_THEY_ARE},
        )
    ).finish()


class _Applied(msgspec.Struct):
    """A rule's report, as a line has it."""

    rule: str  #: the rule's name
    paths: tuple[str, ...] = ()  #: JSON pointers of its edits
    error: str | None = None  #: why the rule was left out


def _reports(exchange: Exchange) -> list[dict[str, Any]]:
    return [
        _known({"rule": one.rule, "paths": [edit.path for edit in one.edits], "error": one.error})
        for one in exchange.reports
    ]


def _sent_path(exchange: Exchange) -> str | None:
    sent, received = exchange.sent, exchange.received
    return None if sent is None or sent.target == received.target else sent.target


def _is_sent_as_received(exchange: Exchange) -> bool | None:
    sent = exchange.sent
    return True if sent is not None and sent.body == exchange.received.body else None


def _sent_body(exchange: Exchange) -> bytes | None:
    sent = exchange.sent
    return None if sent is None or sent.body == exchange.received.body else sent.body


def _usage(exchange: Exchange) -> dict[str, float]:
    said: dict[str, float] = _known(asdict(exchange.usage))
    said.pop("evaluated", None)  # computed from the other members
    return said


LINE = (
    RecordColumn("cacheproxy", lambda _: VERSION),
    RecordColumn("method", "received.method"),
    RecordColumn("path", "received.target"),
    RecordColumn("headers", lambda exchange: pairs(exchange.received.headers)),
    RecordColumn("body", "received.body"),
    RecordColumn("t", "wall", "s since the epoch"),
    RecordColumn("number", "number"),
    RecordColumn("client", lambda exchange: exchange.session and exchange.session.client),
    RecordColumn("session", lambda exchange: exchange.session and exchange.session.id),
    RecordColumn("turn", "turn"),
    RecordColumn("side", "side"),
    RecordColumn("upstream", "upstream"),
    RecordColumn("sent_path", _sent_path),
    RecordColumn("sent_as_received", _is_sent_as_received),
    RecordColumn("sent_body", _sent_body),
    RecordColumn("reports", _reports),
    RecordColumn("status", "status"),
    RecordColumn("response_headers", lambda exchange: pairs(exchange.response_headers)),
    RecordColumn("response_body", "response_body"),
    RecordColumn("bytes_down", "bytes_down", "bytes"),
    RecordColumn("outcome", "outcome"),
    RecordColumn("error", "error"),
    RecordColumn("usage", _usage),
    RecordColumn("sent_after", "sent_after", "s"),
    RecordColumn("head_after", "head_after", "s"),
    RecordColumn("first_byte", "first_byte", "s"),
    RecordColumn("progress", lambda exchange: msgspec.to_builtins(exchange.progress), "tokens"),
    RecordColumn("held", lambda exchange: exchange.held or None),
    RecordColumn("joined", "joined", "s"),
    RecordColumn("queued", "queued", "s"),
    RecordColumn("queued_for", "queued_for"),
    RecordColumn("seconds", lambda exchange: exchange.seconds or None, "s"),
    RecordColumn("verdict", lambda exchange: _known(msgspec.to_builtins(exchange.verdict))),
    RecordColumn("profile", lambda exchange: exchange.profile and plain(exchange.profile)),
)
"""Members of a line, in their order."""
_row = row_of(LINE)

_AS_THEY_ARE = (
    *("number", "turn", "side", "upstream", "status", "bytes_down", "error"),
    *("sent_after", "head_after", "first_byte", "progress", "held", "joined"),
    *("queued", "queued_for"),
)
"""Members of a line that are fields of an Exchange, unchanged."""
_HINTS = get_type_hints(Exchange)
_HEADERS = dict[str, str] | list[tuple[str, str]]
_SPELLED = ("body", "sent_body", "sent_middle", "response_body")
_Line = msgspec.defstruct(
    "_Line",
    [
        *(("method", str), ("path", str), ("t", float, 0.0), ("seconds", float | None, None)),
        *((name, _HINTS[name], getattr(Exchange, name)) for name in _AS_THEY_ARE),
        *((name, _HEADERS, ()) for name in ("headers", "response_headers")),
        *((name, str | None, None) for name in (*_SPELLED, *(f"{it}_base64" for it in _SPELLED))),
        *((name, str | None, None) for name in ("sent_path", "client", "session")),
        *(("sent_as_received", bool, False), ("sent_from", int, 0), ("sent_to", int, 0)),
        ("reports", list[_Applied], ()),
        *((name, Any, None) for name in ("outcome", "usage", "verdict", "profile")),
    ],
)
"""Types of a line's members; unknown members are no error."""


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises CapturedError, without any of its contents."""
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
    """Return ``text`` in UTF-8; lone surrogates, which JSON can spell, survive."""
    return text.encode("utf-8", "surrogatepass")


def _convert(value: Any, kind: Any) -> Any:
    """Return ``value`` as ``kind``, or None if it does not fit: other versions have other words."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, kind)
    except ValueError:
        return None


def _restored(line: Any, body: bytes) -> bytes | None:
    """Return the body sent upstream, from the received ``body`` and the difference in ``line``.

    None if none was recorded.
    """
    if line.sent_as_received:
        return body
    middle = _body(line, "sent_middle")
    if middle is None:
        return _body(line, "sent_body")
    start, end = line.sent_from, line.sent_to
    if not 0 <= start <= end <= len(body):
        raise CapturedError("not a captured exchange: sent_from and sent_to lie outside the body")
    return body[:start] + middle + body[end:]


def _spelled(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the known members of ``fields``, with bytes as text."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, bytes):
            try:
                found[name] = value.decode()
            except UnicodeDecodeError:
                size = _PIECE // 3 * 3  # a piece in between needs no padding
                pieces = (b64encode(value[at : at + size]) for at in range(0, len(value), size))
                found[f"{name}_base64"] = b"".join(pieces).decode()
        elif value is not None:
            found[name] = value
    return found


def _body(line: Any, name: str) -> bytes | None:
    text, base64 = getattr(line, name), getattr(line, f"{name}_base64")
    if base64 is None:
        return None if text is None else to_bytes(text)
    try:
        return b64decode(base64, validate=True)
    except ValueError:
        raise CapturedError(f"{name}_base64 is not base64") from None


def pairs(headers: Headers) -> list[tuple[str, str]]:
    """Return ``headers`` as pairs of text."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _headers(headers: dict[str, str] | list[tuple[str, str]]) -> Headers:
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((header_bytes(name), header_bytes(value)) for name, value in pairs)


def header_bytes(text: str) -> bytes:
    """Return a header's name or value as the bytes on the wire: Latin-1, else UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return to_bytes(text)


def _known(value: Any) -> Any:
    """Return ``value`` without members that are None."""
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
    """Return ``text`` as a JSON string; msgspec, five times faster, refuses lone surrogates."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return encode_basestring_ascii(text).encode()
