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
from urllib.parse import quote

import pytest

from tests.marks import (
    KEYS,
    PATHS,
    QUERY,
    SAID,
    SCRIPTS,
    bad_requests,
    conversation,
    decoded,
    fields,
    found,
)
from tests.plugin.installing import distribution
from tests.proxy.harness import CHUNKED, TIMEOUT, Client, Upstream, environment, eventually, twistd

pytestmark = pytest.mark.slow

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
def cacheproxy_exchange_finished(exchanges):
    if "FORGET" in os.environ:
        fail(ValueError(repr(exchanges)))  # and nobody looks at it: Twisted logs it
    raise RuntimeError(repr(exchanges))
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


@pytest.fixture(params=["terminal", pytest.param("file", marks=pytest.mark.nightly), "daemon"])
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
    for words in ("UPSTREAM FAILED", "CLIENT LEFT", "forwarded unchanged", "stamp: /system"):
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
