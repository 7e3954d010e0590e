"""Marks that are searched for, and the requests and answers that carry them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from secrets import token_hex

from tests.proxy.harness import CHUNKED, head, whole

KEYS = {
    name: f"{prefix}{token_hex(12)}"
    for name, prefix in {
        "x-api-key": "sk-ant-api03-",
        "authorization": "sk-",
        "proxy-authorization": "pa",
        "cookie": "co",
        "set-cookie": "sc",
        "key": "qk",
        "api_key": "AIza",
        "userinfo": "ui",
        "x-goog-api-key": "AIza",
        "api-key": "ak",
        "x-auth-token": "at",
        "x-cacheproxy-token": "ct",
        "header name": "hn",
        "in the prompt": "sk-proj-",
        "in a tool's result": "ghp_" + "a1b2c3d4e5f6",
        "in the path": "sk-or-v1-",
    }.items()
}
"""May be nowhere."""

SAID = {
    name: f"{prefix}{token_hex(8)}"
    for name, prefix in {
        "prompt": "pr",
        "system": "sy",
        "tool result": "tr",
        "model": "mo",
        "session": "se",
        "user": "us",
        "user agent": "ua",
        "not json": "nj",
    }.items()
}
"""May be in captures."""


def conversation(path: str, turn: int) -> bytes:
    """A body with something of everything in it; each ``turn`` breaks the one before."""
    result = f"{SAID['tool result']}\n{KEYS['in a tool' + chr(39) + 's result']}\n"
    return json.dumps(
        {
            "model": SAID["model"],
            "stream": True,
            "system": f"stamp={SAID['system']}{turn} {SAID['system']} {token_hex(4)} " * 20,
            "metadata": {"user_id": SAID["user"]},
            "messages": [
                {"role": "user", "content": f"{SAID['prompt']} {KEYS['in the prompt']}"},
                {"role": "assistant", "content": path},
                {"role": "user", "content": [{"type": "tool_result", "content": result}]},
            ],
        }
    ).encode()


def fields(*more: str) -> list[bytes]:
    """Headers with a mark in each."""
    basic = base64.b64encode(f"me:{KEYS['proxy-authorization']}".encode()).decode()
    lines = [
        "Content-Type: application/json",
        f"X-Api-Key: {KEYS['x-api-key']}",
        f"Authorization: Bearer {KEYS['authorization']}",
        f"Proxy-Authorization: Basic {basic}",
        f"Cookie: a=b; sid={KEYS['cookie']}",
        f"X-Goog-Api-Key: {KEYS['x-goog-api-key']}",
        f"api-key: {KEYS['api-key']}",
        f"X-Auth-Token: {KEYS['x-auth-token']}",
        f"X-Cacheproxy-Token: {KEYS['x-cacheproxy-token']}",
        f"X-{KEYS['header name']}: 1",
        f"X-Session-Id: {SAID['session']}",
        f"User-Agent: agent/1.0 ({SAID['user agent']}; {KEYS['x-api-key']})",
        *more,
    ]
    return [line.encode() for line in lines]


QUERY = f"?key={KEYS['key']}&api_key={KEYS['api_key']}&{KEYS['key']}"

COOKIE = f"Set-Cookie: sid={KEYS['set-cookie']}; Path=/".encode()


def echo(peer, received):
    """Say everything that came once more, with a cookie."""
    said = {"headers": [(n.decode(), v.decode()) for n, v in received.headers]}
    said["line"] = received.line.decode()
    said["body"] = received.body.decode("latin-1")
    peer.send(whole(json.dumps(said).encode(), COOKIE, b"Content-Type: application/json"))


def echo_compressed(peer, received):
    said = gzip.compress(b"\n".join(v for _, v in received.headers) + received.body)
    peer.send(whole(said, COOKIE, b"Content-Encoding: gzip"))


def not_utf8(peer, received):
    peer.send(whole(b"\xff\xfe" + received.body + received.line, COOKIE))


def dies(peer, received):
    peer.send(CHUNKED)
    peer.chunk(b"data: %s\n\n" % received.body[:3000])


def dies_unsaid(peer, _):
    peer.close()


def odd_head(peer, received):
    peer.send(b"HTTP/1.1 %s\r\n\r\n" % received.values(b"x-api-key")[0])


def odd_field(peer, received):
    peer.send(head(received.values(b"authorization")[0]))


def odd_length(peer, received):
    peer.send(head(b"Content-Length: " + received.values(b"api-key")[0]))


def usage(peer, received):
    """A turn that has evaluated all of its prompt again: a break, with a report."""
    counts = {"input_tokens": 4000, "cache_read_input_tokens": 10, "output_tokens": 1}
    said = json.dumps({"usage": counts, "echo": received.body.decode("latin-1")}).encode()
    peer.send(whole(said, b"Content-Type: application/json"))


SCRIPTS = [echo, echo_compressed, not_utf8, dies, dies_unsaid]

SCRIPTS += [odd_head, odd_field, odd_length, usage, usage]

PATHS = ["/v1/messages", "/v1/chat/completions", f"/x/{KEYS['in the path']}", "/v1/messages;a="]


def bad_requests() -> Iterator[tuple[int, bytes]]:
    """Requests that are answered by the proxy itself, and the status."""
    key, host = KEYS["x-api-key"], "Host: 127.0.0.1"
    more = b"\r\n".join(fields()).decode()
    yield 400, f"GET /v1/models{QUERY} HTTP/1.1\r\n{host}\r\nBad Header: {key}\r\n\r\n".encode()
    yield 400, f"GET http://u:{KEYS['userinfo']}@x/ HTTP/1.1\r\n{host}\r\n{more}\r\n\r\n".encode()
    yield 400, f"GET u:{KEYS['userinfo']}@x:80 HTTP/1.1\r\n{host}\r\n\r\n".encode()
    yield 400, f"POST /x{QUERY} HTTP/1.1\r\n{host}\r\nContent-Length: {key}\r\n\r\n".encode()
    yield 400, f"POST / HTTP/1.1\r\n{host}\r\nTransfer-Encoding: {key}\r\n\r\n".encode()
    yield (
        413,
        f"POST /x{QUERY} HTTP/1.1\r\n{host}\r\n{more}\r\nContent-Length: 9999999\r\n\r\n".encode(),
    )
    yield 414, f"GET /{'x' * 40_000}{QUERY} HTTP/1.1\r\n{host}\r\n{more}\r\n\r\n".encode()
    yield 431, f"GET /{QUERY} HTTP/1.1\r\n{host}\r\n{more}\r\nX: {key * 4000}\r\n\r\n".encode()
    yield 404, f"GET /_cacheproxy/no{QUERY} HTTP/1.1\r\n{host}\r\n{more}\r\n\r\n".encode()
    yield 404, f"GET /_cacheproxy/diagnose/{key} HTTP/1.1\r\n{host}\r\n{more}\r\n\r\n".encode()


def spellings(mark: str) -> Iterator[bytes]:
    """A mark as it is, and in the three ways base64 can spell it."""
    yield mark.encode()
    for start in range(3):
        yield base64.b64encode(b" " * start + mark.encode())[4:-4]


def found(marks: dict[str, str], data: bytes | str) -> list[str]:
    """The names of the marks that are in ``data``."""
    data = data.encode() if isinstance(data, str) else data
    lowered = data.lower()  # the names of headers
    return [
        name
        for name, mark in marks.items()
        if mark.encode().lower() in lowered or any(each in data for each in spellings(mark))
    ]


def decoded(line: bytes) -> Iterator[bytes]:
    """A captured line, and what is encoded in it."""
    yield line
    for name, value in json.loads(line).items():
        if name.endswith("_base64"):
            data = base64.b64decode(value)
            yield gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
