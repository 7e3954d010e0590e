"""What becomes of a proxy's totals in trouble: with a real process, and its file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from cacheproxy.totals.file import NAME, SCHEMA

from .proxy.harness import Client, Proxy, eventually, sound_upstream, whole
from .web.asking import get

pytestmark = pytest.mark.slow

_USAGE = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 7}}
_ANSWER = whole(json.dumps({"usage": _USAGE}).encode(), b"Content-Type: application/json")
_BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
_RUN_TURNED = """
import pathlib, sys, time
clock, turned = time.time, pathlib.Path(sys.argv.pop())
time.time = lambda: clock() + float(turned.read_text())  # before Twisted takes it
from twisted.scripts.twistd import run
sys.exit(run())
"""


@pytest.fixture(scope="module")
def upstream():
    with sound_upstream() as found:
        found.reset(lambda peer, _: peer.send(_ANSWER))
        yield found


@pytest.fixture
def start(tmp_path, upstream):
    """Start a proxy that keeps its totals in ``folder``."""
    with contextlib.ExitStack() as stack:

        def start(folder, kind=Proxy):
            proxy = kind(tmp_path, "--upstream", upstream.url, CACHEPROXY_STATE_DIR=str(folder))
            return stack.enter_context(proxy)

        yield start


def turns(proxy, count):
    with Client(proxy.address) as client:
        for _ in range(count):
            assert client.ask("/v1/chat/completions", _BODY).answer().status == 200


def shown(proxy):
    return json.loads(get(proxy, "/_cacheproxy/data?window=24h").body)


def requests(proxy):
    return shown(proxy)["overview"]["sums"]["requests"]


def end(proxy):
    proxy.signal(signal.SIGTERM)
    assert proxy.ended() == 0


def kept(folder):
    """The requests and prompt tokens that the file has: row by row, and in its sums."""
    with contextlib.closing(sqlite3.connect(folder / NAME)) as file:
        rows = file.execute("SELECT count(*), total(prompt) FROM exchanges").fetchone()
        sums = "SELECT sum(requests), sum(prompt) FROM rollups WHERE step = 60000"
        assert file.execute(sums).fetchone() == rows
        return rows


def test_a_second_proxy_writes_when_the_first_one_has_ended(start, tmp_path):
    """Or at its own end; its pages answer meanwhile, and nothing is lost."""
    folder = tmp_path / "state"
    first = start(folder)
    turns(first, 3)
    second = start(folder)
    turns(second, 4)
    eventually(lambda: requests(second) == 4)
    assert f"another cacheproxy is using {folder}" in shown(second)["unkept"]
    turns(first, 2)
    end(first)
    second.wait_for(f"totals are kept again in {folder / NAME}")
    turns(second, 1)
    eventually(lambda: requests(second) == 10)
    third = start(folder)
    turns(third, 6)
    for proxy in (third, second):
        proxy.signal(signal.SIGTERM)
    assert second.ended() == third.ended() == 0
    assert kept(folder) == (16, 160)
    assert sum("no totals are kept" in line for line in second.lines) == 1


def _newer(folder):
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(folder / NAME)) as file:
        file.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    return folder / NAME


def _file(folder):
    folder.write_text("")
    return folder


def _link(folder):
    folder.mkdir()
    (folder / NAME).symlink_to("elsewhere")
    return folder / NAME


CAUSES = {"newer version": _newer, "is a file": _file, "symbolic links": _link}


@pytest.mark.parametrize("why", CAUSES)
def test_it_serves_without_totals(start, tmp_path, why):
    """And says why, once; when that is mended, what has been since is written."""
    folder = tmp_path / "state"
    in_the_way = CAUSES[why](folder)
    proxy = start(folder)
    turns(proxy, 3)
    eventually(lambda: requests(proxy) == 3)
    found = shown(proxy)
    assert why in found["unkept"]
    assert get(proxy, "/_cacheproxy/metrics").status == 200
    assert get(proxy, "/_cacheproxy/health").status == 200
    in_the_way.rename(tmp_path / "aside")
    end(proxy)
    assert kept(folder) == (3, 30)
    (said,) = (line for line in proxy.lines if "no totals are kept" in line)
    assert why in said
    assert str(folder) in said


@pytest.mark.skipif(os.getuid() != 0, reason="a disk of its own is mounted by root alone")
@pytest.mark.parametrize("options", ["size=16k", "size=1m,ro", "size=256k"])
def test_on_a_disk_that_is_full_or_read_only(start, tmp_path, options):
    """From its start, or later; when there is room, what waited is written."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        proxy = start(folder)
        count = 0
        while count < 20 or not shown(proxy)["unkept"]:
            turns(proxy, 20)
            count += 20
        turns(proxy, 5)
        grow = ["mount", "-o", "remount,rw,size=8m", str(folder)]
        subprocess.run(grow, check=True)
        end(proxy)
        assert kept(folder) == (count + 5, 10 * (count + 5))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_what_is_lost_with_the_process(start, tmp_path):
    """At most what came in the last half second; here a machine may be busy for two more."""
    folder = tmp_path / "state"
    proxy = start(folder)
    answered: list[float] = []

    def ask():
        with contextlib.suppress(AssertionError, OSError, EOFError), Client(proxy.address) as one:
            while one.ask("/v1/chat/completions", _BODY).answer().status == 200:
                answered.append(time.monotonic())
                time.sleep(0.01)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for each in clients:
        each.start()
    eventually(lambda: answered and time.monotonic() - answered[0] > 4)
    killed = time.monotonic()
    proxy.signal(signal.SIGKILL)
    assert proxy.ended() == -signal.SIGKILL
    for each in clients:
        each.join()
    assert len(answered) >= kept(folder)[0] >= sum(each < killed - 2.5 for each in answered) > 0


class Turned(Proxy):
    """A proxy that believes another time of day: what ``turn`` says, in days from now."""

    def __init__(self, folder, *arguments, **environ):
        self._turned = folder / "turned"
        self.turn(0)
        super().__init__(folder, *arguments, **environ)

    def command(self, *arguments):
        options = ("-n", "--pidfile=", "cacheproxy", *arguments, str(self._turned))
        return [sys.executable, "-c", _RUN_TURNED, *options]

    def turn(self, days):
        new = self._turned.with_suffix(".new")
        new.write_text(str(86_400.0 * days))
        new.replace(self._turned)


def test_a_clock_that_is_turned_stops_nothing(start, tmp_path):
    """Lines are logged, totals kept and pages shown, whatever the time; nothing is deleted."""
    folder = tmp_path / "state"
    proxy = start(folder, Turned)
    days = (0, -1 / 24, -1, -20_000, 366, 0)
    before = proxy.mark()
    for count, turned in enumerate(days, 1):
        proxy.turn(turned)
        turns(proxy, 1)
        eventually(lambda count=count: len(proxy.lines) - before == count)
        eventually(lambda: requests(proxy) >= 1)
    assert requests(proxy) >= 2
    end(proxy)
    assert kept(folder) == (len(days), 10 * len(days))
