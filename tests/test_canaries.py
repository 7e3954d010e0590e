"""Marks in everything that may be secret, on every way through the proxy, looked for everywhere.

A key may be nowhere but at the upstream. What was said may be in a capture as well, since that is
what captures are for; of it the report of one exchange quotes a few words.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

import pytest

from tests.plugin.installing import distribution
from tests.proxy.harness import (
    CHUNKED,
    TIMEOUT,
    Client,
    Upstream,
    environment,
    eventually,
    head,
    twistd,
    whole,
)

pytestmark = pytest.mark.slow

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

PLUGIN = """
import os

from twisted.internet.defer import fail

from cacheproxy import Client, hookimpl

@hookimpl
def cacheproxy_client():
    return Client("*")

@hookimpl
def cacheproxy_normalize(request):
    raise ValueError(f"{request} {request.json}")

@hookimpl
def cacheproxy_session(request):
    raise KeyError(repr(request))

@hookimpl
def cacheproxy_exchange_finished(exchange):
    if "FORGET" in os.environ:
        fail(ValueError(repr(exchange)))  # and nobody looks at it: Twisted logs it
    raise RuntimeError(repr(exchange))
"""
RULES = r"""
[[rule]]
name = "stamp"
where = "system"
pattern = 'stamp=\w+'
replacement = "stamp=0"
why = "a stamp changes with every request"
"""
_ADDRESS = re.compile(r"cacheproxy \S+ {3}http://(\S+):(\d+) ")


class Running:
    """The proxy under twistd, with its log on the terminal, in a file, or as a daemon."""

    def __init__(self, folder: Path, how: str, *arguments: str, **environ: str) -> None:
        self.log = folder / "log"
        self.folder = folder
        self._pidfile = folder / "pid" if how == "daemon" else None
        options = [f"--pidfile={self._pidfile or ''}"]
        options += ["-n"] if how != "daemon" else [f"--rundir={folder}"]
        options += ["-l", str(self.log)] if how != "terminal" else []
        output = self.log.open("wb") if how == "terminal" else subprocess.DEVNULL
        self._process = subprocess.Popen(
            twistd("--port", "0", *arguments, options=tuple(options)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if how == "terminal" else subprocess.DEVNULL,
            env=environment(
                folder, PYTHONPATH=str(install(folder)), CACHEPROXY_BLOCK="", **environ
            ),
            cwd=folder,
        )
        try:
            eventually(lambda: "Ready." in self.text)
        except BaseException as error:
            self._process.kill()
            if self._pidfile is not None and self._pidfile.exists():
                os.kill(int(self._pidfile.read_text()), signal.SIGKILL)
            raise AssertionError(self.text) from error
        found = _ADDRESS.search(self.text)
        assert found
        self.address = found[1], int(found[2])
        self.pid = int(self._pidfile.read_text()) if self._pidfile else self._process.pid

    @property
    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        self._process.wait(TIMEOUT)
        eventually(lambda: not alive(self.pid))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def install(folder: Path) -> Path:
    """Put a client package into ``folder`` whose hooks raise what they were shown."""
    site = folder / "site"
    distribution(site, "tattletale", "tattletale", "tattletale")
    (site / "tattletale.py").write_text(PLUGIN)
    return site


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


@pytest.fixture(params=["terminal", "file", "daemon"])
def stormed(request, tmp_path):
    """A proxy that has seen everything, its upstream gone by now; what its own answers were."""
    before = os.umask(0)
    upstream = Upstream()
    (tmp_path / "config.toml").write_text(RULES)
    arguments = ("--config", "config.toml", "--upstream", upstream.url, "--max-body", "1")
    try:
        proxy = Running(
            tmp_path, request.param, *arguments, "--verbose", "--capture", "new/captures"
        )
    finally:
        os.umask(before)
    try:
        yield proxy, list(storm(proxy, upstream))
    finally:
        if alive(proxy.pid):
            proxy.stop()
        upstream.close()


def storm(proxy: Running, upstream: Upstream) -> Iterator[bytes]:
    """Yield what the proxy itself answered: errors and its own pages, but for the reports."""
    for turn, script in enumerate(SCRIPTS):
        upstream.reset(script)
        for path in PATHS:
            body = conversation(path, turn)
            for each in (body, body[:-5], b"\xff" + body, SAID["not json"].encode()):
                with Client(proxy.address) as client:
                    target = path + (KEYS["userinfo"] if path.endswith("=") else "") + QUERY
                    client.ask(target, each, *fields()).answer()
    upstream.reset(lambda peer, _: (peer.send(CHUNKED), peer.wait_closed()))
    with Client(proxy.address) as client:
        client.ask("/v1/messages" + QUERY, conversation("", 0), *fields()).begin()
    for status, raw in bad_requests():
        with Client(proxy.address) as client:
            client.send(raw)
            answer = client.answer()
            assert answer.status == status, (status, answer.body)
            yield repr(answer).encode()
    upstream.close()
    with Client(proxy.address) as client:
        answer = client.ask("/v1/messages" + QUERY, conversation("", 0), *fields()).answer()
        assert answer.status == 502
        yield repr(answer).encode()


def page(proxy: Running, path: str) -> bytes:
    with Client(proxy.address) as client:
        answer = client.ask(f"/_cacheproxy/{path}", None, *fields(), method=b"GET").answer()
    assert answer.status in (200, 404)
    return repr(answer).encode()


def test_no_mark_is_found_where_it_may_not_be(stormed):
    """In logs, errors, own pages and captures; the files are nobody else's."""
    proxy, answers = stormed
    eventually(lambda: "CLIENT LEFT" in proxy.text)
    everywhere = KEYS | SAID
    for answer in answers:
        assert found(everywhere, answer) == []
    assert found(everywhere, page(proxy, "health")) == []
    listed = page(proxy, "exchanges")
    shown = {name: mark for name, mark in everywhere.items() if name != "session"}
    assert found(shown, listed) == []
    numbers = re.findall(r'\\*"number\\*": (\d+)', listed.decode())
    reports = [page(proxy, f"diagnose/{number}") for number in numbers]
    assert any(b"system_changed" in report for report in reports)
    for report in reports:
        assert found(KEYS, report) == []

    folder = proxy.folder / "new" / "captures"
    proxy.stop()
    log = proxy.text
    assert found(everywhere, log) == []
    assert quote(SAID["prompt"])[:6] not in log
    # what was to be seen has been seen
    for words in ("UPSTREAM FAILED", "CLIENT LEFT", "goes on as it came", "stamp: /system"):
        assert words in log, words
    for name in ("tattletale", "ValueError", "KeyError", "RuntimeError"):
        assert name in log, name

    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    assert len(lines) > 100
    seen = set()
    for line in lines:
        for data in decoded(line):
            assert found(KEYS, data) == []
            seen.update(found(SAID, data))
    assert {"prompt", "tool result", "model", "session", "not json"} <= seen
    for each in (folder.parent, folder, *folder.iterdir()):
        assert not stat.S_IMODE(each.stat().st_mode) & 0o077, each


@pytest.mark.parametrize("how", ["terminal", "file"])
def test_what_nobody_catches_is_logged_without_its_text(tmp_path, how):
    """Twisted logs a forgotten failure with its traceback; what it says may be a prompt."""
    upstream = Upstream()
    proxy = Running(tmp_path, how, "--upstream", upstream.url, FORGET="1")
    try:
        with Client(proxy.address) as client:
            client.ask("/v1/messages", conversation("", 0), *fields()).answer()
        eventually(lambda: "Unhandled error in Deferred" in proxy.text)
    finally:
        proxy.stop()
        upstream.close()
    assert "ValueError" in proxy.text
    assert found(KEYS | SAID, proxy.text) == []


def test_the_marks_are_found_where_they_are():
    """The search itself: raw, in base64 wherever it starts, compressed, in any case."""
    name, mark = "cookie", KEYS["cookie"]
    assert found(KEYS, f"x{mark}x") == found(KEYS, mark.upper()) == [name]
    for start in range(3):
        assert found(KEYS, base64.b64encode(b"x" * start + mark.encode() + b"xyz")) == [name]
    packed = base64.b64encode(gzip.compress(mark.encode())).decode()
    line = json.dumps({"response_body_base64": packed}).encode()
    assert [found(KEYS, data) for data in decoded(line)] == [[], [name]]
