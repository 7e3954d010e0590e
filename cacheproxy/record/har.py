"""Captured exchanges as an HTTP Archive, and back.

HAR 1.2: http://www.softwareishard.com/blog/har-12-spec/. Fields that HAR does not have are in each
entry under ``_cacheproxy`` ("custom fields ... must start with an underscore"), named as in our
own JSON line. Browsers, mitmproxy and recording libraries each leave some fields out; the reader
accepts that.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from cacheproxy.core.http1.content_coding import decoded
from cacheproxy.core.http1.headers import values
from cacheproxy.core.privacy.redact import redact_target
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.record.exchange import Exchange, redacted
from cacheproxy.record.jsonl import (
    CapturedError,
    from_fields,
    header_bytes,
    pairs,
    to_bytes,
    to_fields,
)

_OURS = "_cacheproxy"
_SAID_BY_HAR = frozenset(
    {"headers", "body", "body_base64", "response_headers", "response_body", "response_body_base64"}
)
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_URL_SAFE = "/?#[]@!$&'()*+,;=:%-._~|"


def to_har(records: Iterable[Exchange], version: str) -> dict[str, Any]:
    """Return the object of a HAR file, without credentials; ``version``: that of cacheproxy."""
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "cacheproxy", "version": version},
            "entries": [_entry(redacted(record)) for record in records],
        }
    }


def from_har(document: Any) -> Iterator[Exchange | str]:
    """Yield the exchanges of a HAR file's object, or the error of an entry that is none.

    Raises CapturedError if it is no HAR. No message quotes the file.
    """
    log = document.get("log") if isinstance(document, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    if not isinstance(entries, list):
        raise CapturedError("JSON, but not a HAR: it has no log with entries")
    bodiless = with_body = 0
    for number, entry in enumerate(entries, 1):
        try:
            record = _captured(entry)
        except CapturedError as error:
            yield f"entry {number}: {error}"
            continue
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            yield f"entry {number}: not as HAR 1.2 says"
            continue
        if record.received.body:
            with_body += 1
        elif _lacks_body(entry, record):
            bodiless += 1
        yield record
    if bodiless:
        some = f"{bodiless} of {bodiless + with_body} requests lack their body"
        what = some if with_body else "no request has its body"
        yield f"{what}: record again with bodies (in a browser, save the HAR with content)"


def _lacks_body(entry: dict[str, Any], record: Exchange) -> bool:
    if record.received.method != "POST" or _OURS in entry:
        return False
    said = record.received.header("content-length") or entry["request"].get("bodySize")
    return record.received.dialect is not None or said not in (None, 0, "0")


def _entry(record: Exchange) -> dict[str, Any]:
    sent, head, end = record.sent_after, record.head_after, record.seconds
    blocked = sent or 0.0
    waited = max(blocked, head if head is not None else end or 0.0)
    ended = max(waited, end or 0.0)
    timings = {
        "blocked": -1 if sent is None else round(blocked * 1e3, 3),
        "dns": -1,
        "connect": -1,
        "send": 0,
        "wait": round((waited - blocked) * 1e3, 3),
        "receive": round((ended - waited) * 1e3, 3),
        "ssl": -1,
    }
    started = datetime.fromtimestamp(record.wall, UTC)
    ours = {key: value for key, value in to_fields(record).items() if key not in _SAID_BY_HAR}
    return {
        "startedDateTime": started.isoformat(timespec="microseconds"),
        "time": round(sum(value for value in timings.values() if value > 0), 3),
        "request": _request(record.received, record.upstream),
        "response": _response(record),
        "cache": {},
        "timings": timings,
        _OURS: ours,
    }


def _request(request: Request, upstream: str) -> dict[str, Any]:
    target = request.target
    if "://" not in target.partition("?")[0]:
        host = _first(request.headers, b"host")
        base = upstream or (f"http://{host}" if host else "http://localhost")
        target = base.rstrip("/") + (target if target.startswith("/") else f"/{target}")
    said: dict[str, Any] = {
        "method": request.method,
        "url": quote(to_bytes(target), safe=_URL_SAFE),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _named(pairs(request.headers)),
        "queryString": _named(
            parse_qsl(request.target.partition("?")[2], keep_blank_values=True, errors="replace")
        ),
        "headersSize": -1,
        "bodySize": len(request.body),
    }
    if request.body:
        text, encoding = _text(request.body)
        said["postData"] = {"mimeType": _first(request.headers, b"content-type"), "text": text}
        if encoding:  # HAR 1.2 has the member "encoding" for responses only
            said["postData"]["_encoding"] = encoding
    return said


def _response(record: Exchange) -> dict[str, Any]:
    status, body = record.status or 0, record.response_body
    content: dict[str, Any] = {
        "size": 0,
        "mimeType": _first(record.response_headers, b"content-type"),
    }
    if body is not None:
        plain = decoded(body, record.response_headers)
        content["text"], encoding = _text(plain)
        content["size"] = len(plain)
        if encoding:
            content["encoding"] = encoding
        if plain is not body:
            content["compression"] = len(plain) - len(body)
    said = {
        "status": status,
        "statusText": _PHRASES.get(status, ""),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _named(pairs(record.response_headers)),
        "content": content,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": record.bytes_down if record.bytes_down is not None else -1,
    }
    if record.error is not None:
        said["_error"] = record.error
    return said


def _named(found: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in found]


def _first(headers: Headers, name: bytes) -> str:
    return b"".join(values(headers, name)[:1]).decode("latin-1")


def _text(body: bytes) -> tuple[str, str | None]:
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return b64encode(body).decode(), "base64"


def _captured(entry: Any) -> Exchange:
    request, response = entry["request"], entry.get("response") or {}
    ours = entry.get(_OURS)
    said: dict[str, Any] = dict(ours) if isinstance(ours, dict) else _foreign(entry, request)
    said["headers"] = _header_pairs(request)
    said |= _body("body", request.get("postData"))
    if not isinstance(ours, dict):
        said["headers"] = _decoded(said["headers"])
    content = response.get("content") or {}
    said |= _body("response_body", content)
    headers = _header_pairs(response)
    said["response_headers"] = _decoded(headers) if "text" in content else headers
    return from_fields(said)


def _decoded(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return ``headers`` without those that do not fit a HAR's bodies, which are decoded."""
    return [pair for pair in headers if pair[0].lower() != "content-encoding"]


def _foreign(entry: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Return our own fields as far as another program's entry has them."""
    response, timings = entry.get("response") or {}, entry.get("timings") or {}
    url = urlsplit(request["url"])
    query = f"?{url.query}" if url.query else ""
    before = sum(_milliseconds(timings, name) for name in ("blocked", "dns", "connect", "send"))
    said: dict[str, Any] = {
        "method": request["method"],
        "path": (url.path or "/") + query,
        "t": _epoch(entry.get("startedDateTime")),
        "upstream": redact_target(f"{url.scheme}://{url.netloc}") if url.netloc else "",
        "status": int(response.get("status") or 0) or None,
        "error": "failed" if response.get("_error") else None,
    }
    time = entry.get("time")
    if isinstance(time, int | float) and time > 0:
        said["seconds"] = time / 1e3
    if said["status"] is not None and "wait" in timings:
        said["sent_after"] = before / 1e3
        said["head_after"] = (before + _milliseconds(timings, "wait")) / 1e3
    return said


def _header_pairs(message: dict[str, Any]) -> list[tuple[str, str]]:
    found = ((pair["name"], pair["value"]) for pair in message.get("headers") or ())
    # HTTP/2's ":method" and the like are no header fields
    return [
        (name, header_bytes(value).decode("latin-1"))
        for name, value in found
        if not name.startswith(":")
    ]


def _body(key: str, said: Any) -> dict[str, str]:
    """Return the body of ``postData`` or ``content`` as a line's member, if there is one."""
    text = said.get("text") if isinstance(said, dict) else None
    if text is None:
        return {}
    if "base64" in (said.get("encoding"), said.get("_encoding")):
        try:
            body = b64decode(text)
        except ValueError:
            raise CapturedError(f"the {key.replace('_', ' ')} is not base64") from None
    else:
        try:  # mitmproxy writes bytes that are not UTF-8 as lone surrogates (PEP 383)
            body = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            body = to_bytes(text)
    return {f"{key}_base64": b64encode(body).decode()}


def _milliseconds(timings: dict[str, Any], name: str) -> float:
    value = timings.get(name)
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0


def _epoch(text: Any) -> float:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
