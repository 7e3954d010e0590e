"""SIGHUP: the configuration is read again, and no stream is dropped."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from cacheproxy.config import Config
from cacheproxy.daemon.reloading import NEED_A_RESTART, Reloading, summary
from cacheproxy.proxy.exchange.workers import Workers
from cacheproxy.sources import load
from tests import transcript
from tests.plugin.installing import distribution
from tests.proxy.harness import CHUNKED, TIMEOUT, Client, Proxy, Upstream
from tests.turning import TurningReactor

pytestmark = pytest.mark.slow

RULE = r"""
[[rule]]
name = "{name}"
where = "system"
pattern = '{pattern}'
{more}
"""
STAMP = RULE.format(name="stamp", pattern=r"stamp=\d+", more='replacement = "stamp=0"')
PIN = RULE.format(name="id", pattern=r"id=(?P<volatile>\w+)", more="pin = true")


@pytest.fixture(scope="module")
def upstreams():
    """Two model servers."""
    found = Upstream(), Upstream()
    yield found
    for upstream in found:
        upstream.close()


@pytest.fixture
def first(upstreams):
    upstreams[0].reset()
    return upstreams[0]


@pytest.fixture
def second(upstreams):
    upstreams[1].reset()
    return upstreams[1]


class Reloaded:
    """A proxy that is given one config file after the other."""

    def __init__(self, folder) -> None:
        self._file = folder / "config.toml"
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self.proxy = None

    def start(self, text, **environ):
        self._file.write_text(text)
        proxy = Proxy(self._folder, "--config", "config.toml", **environ)
        self.proxy = self._stack.enter_context(proxy)
        return self.proxy

    def reload(self, text):
        """Write the file and send SIGHUP; return the line that the proxy says."""
        mark = self.proxy.mark()
        self._file.write_text(text)
        self.proxy.signal(signal.SIGHUP)
        return self.proxy.wait_for("reloaded", since=mark)

    def close(self):
        self._stack.close()
        assert "Traceback" not in self.proxy.output


@pytest.fixture
def reloaded(tmp_path):
    found = Reloaded(tmp_path)
    yield found
    found.close()


@pytest.fixture
def client(reloaded):
    """A connection that stays open from one configuration to the next."""
    clients = []

    def connect():
        if not clients:
            clients.append(Client(reloaded.proxy.address))
        return clients[0]

    yield connect
    for each in clients:
        each.close()


def turn(*texts):
    """The body of a chat turn whose system text comes first."""
    system, *users = texts
    messages = [{"role": "system", "content": system}]
    messages += [{"role": "user", "content": text} for text in users]
    return json.dumps({"model": "m", "messages": messages}).encode()


def relayed(upstream, path, text=b""):
    """The next request for ``path`` with ``text`` in its body: the proxy's own are left out."""
    while True:
        received = upstream.received()
        if received.line.split()[1] == path and text in received.body:
            return received


def test_a_stream_goes_on_and_what_is_new_goes_elsewhere(reloaded, client, first, second):
    """A running exchange keeps its upstream; also a kept-alive connection changes over."""
    go = threading.Event()

    def script(peer, _):
        peer.send(CHUNKED)
        peer.chunk(b"1")
        go.wait(TIMEOUT)
        peer.chunk(b"2")
        peer.send(b"0\r\n\r\n")

    proxy = reloaded.start(f'upstream = "{first.url}"')
    assert client().ask("/before", b"{}").answer().status == 200
    before = relayed(first, b"/before")
    first.reset(script)
    with Client(proxy.address) as streaming:
        pieces = streaming.pieces(streaming.ask("/stream", b"{}").begin())
        assert next(pieces) == b"1"
        said = reloaded.reload(f'upstream = "{second.url}"\nmax_body = 1\nverbose = true')
        assert said == "reloaded: upstream, max_body, verbose changed"
        assert client().ask("/after", b"{}").answer().status == 200
        go.set()
        assert list(pieces) == [b"2"]
    after = relayed(second, b"/after")
    assert after.values(b"via") == before.values(b"via")
    assert client().ask("/x", b"a" * (1 << 20 | 1)).answer().status == 413
    assert proxy.wait_for("body 2 bytes, sent 2")
    health = Client(proxy.address)
    with health:
        page = json.loads(health.ask("/_cacheproxy/health", method=b"GET").answer().body)
    assert page["upstream"]["url"] == second.url


def test_rules_change_and_sessions_are_remembered(reloaded, client, first):
    """Turns go on counting; a rule that looks back finds the turn before, which it had not seen."""
    base = f'upstream = "{first.url}"\n'
    proxy = reloaded.start(base + STAMP)

    def sent(number, *users):
        body = turn(f"stamp={number} id=a{number}", *users)
        client().ask("/v1/chat/completions", body, b"X-Session-ID: s")
        assert client().answer().status == 200
        received = relayed(first, b"/v1/chat/completions", b"stamp=")
        return json.loads(received.body)["messages"][0]["content"]

    assert sent(1, "a") == "stamp=0 id=a1"
    assert reloaded.reload(base + STAMP + PIN) == "reloaded: rule changed"
    assert sent(2, "a", "b") == "stamp=0 id=a1"
    assert reloaded.reload(base) == "reloaded: rule changed"
    assert sent(3, "a", "b", "c") == "stamp=3 id=a3"
    assert reloaded.reload(base + STAMP + PIN) == "reloaded: rule changed"
    assert sent(4, "a", "b", "c", "d") == "stamp=0 id=a4"  # a text that no turn before has had
    said = reloaded.reload(base + STAMP + PIN + "\n[[rule]]\nname = 'x'\n")
    assert said.startswith("warn: settings not reloaded")
    assert sent(5, "a", "b", "c", "d", "e") == "stamp=0 id=a4"
    disabled = 'disable = ["id"]\n' + base + STAMP + PIN
    assert reloaded.reload(disabled) == "reloaded: disable changed"
    assert sent(6, "a", "b", "c", "d", "e", "f") == "stamp=0 id=a6"
    proxy.wait_for(" #6 ")
    assert re.findall(r" #(\d+) ", proxy.output) == ["1", "2", "3", "4", "5", "6"]
    with Client(proxy.address) as asking:
        page = json.loads(asking.ask("/_cacheproxy/exchanges", method=b"GET").answer().body)
    assert len([row for row in page["exchanges"] if row["turn"]]) == 6


WRONG = [
    ("upstream = ", "config.toml is not valid TOML"),
    ("ports = 1", "ports is not a setting"),
    ("max_body = 0", "max_body must be a whole number of at least 1"),
    (STAMP + STAMP, "rule 'stamp' comes from both"),
    (RULE.format(name="x", pattern="(", more=""), "rule 'x': bad pattern"),
    ('enable = ["nosuch"]', "no rule is called nosuch"),
    ("", "names no upstream any more"),
    ("verbose = true", "names no upstream any more"),
    ('upstream = "localhost"', "is not an http or https URL:"),
    ('upstream = "http://u:kanarienvogel@h"', "user, query or fragment"),
    ('upstream = "{self}"', "is this proxy itself"),
]


def test_what_is_wrong_changes_nothing(reloaded, client, first, tmp_path):
    good = f'upstream = "{first.url}"\n' + STAMP
    proxy = reloaded.start(good)
    for text, words in WRONG:
        mark = proxy.mark()
        said = reloaded.reload(text.replace("{self}", proxy.url))
        assert said.startswith("warn: settings not reloaded, the old ones stay in use: "), said
        assert words in said
        assert client().ask("/v1/chat/completions", turn("stamp=7", "a")).answer().status == 200
        received = relayed(first, b"/v1/chat/completions", b"stamp=")
        assert b"stamp=0" in received.body
        assert len([line for line in proxy.lines[mark:] if "warn: " in line]) == 1
    (tmp_path / "config.toml").unlink()
    mark = proxy.mark()
    proxy.signal(signal.SIGHUP)
    assert "No such file" in proxy.wait_for("not reloaded", since=mark)
    (tmp_path / "config.toml").write_text("verbose = true\n" + good)  # no signal: it looks again
    assert "reloaded: verbose changed" in proxy.wait_for("reloaded: ")
    assert "kanarienvogel" not in proxy.output


SLOW = """
import time
from cacheproxy import Client
CLIENT, RULES = Client(name="slow"), ()
print("begun", flush=True)
time.sleep(1)
"""
SERVE = ["-m", "cacheproxy", "serve"]
TWISTD = ["-c", "from twisted.scripts.twistd import run; run()", "-n", "cacheproxy"]


@pytest.mark.parametrize("command", [SERVE, TWISTD], ids=["serve", "twistd"])
def test_a_signal_while_it_starts_is_no_harm(tmp_path, command):
    """It reads its settings anyway; without a handler it would end."""
    (tmp_path / "slow.py").write_text(SLOW)
    given = ["--port", "0", "--upstream", "http://127.0.0.1:9", "--plugin", "slow.py"]
    process = subprocess.Popen(
        [sys.executable, *command, *given],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert "begun" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    said = ""
    while "Ready." not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    process.terminate()
    process.communicate(timeout=60)


def test_what_cannot_change_is_named(reloaded, client, first, tmp_path):
    """Until the next start; and no value is shown, since it may be a secret."""
    base = f'upstream = "{first.url}"\n'
    proxy = reloaded.start(base)
    more = 'capture = "captures"\ninterface = "0.0.0.0"\nblock = []\ntoken = "kanarienvogel"\n'
    said = reloaded.reload(base + more)
    assert said == "reloaded: token changed; interface, capture need a restart"
    assert client().ask("/x").answer().status == 401
    assert not (tmp_path / "captures").exists()
    again = reloaded.reload(base + 'listen = "tcp:1"')
    assert again == "reloaded: token changed; listen needs a restart"
    with Client(proxy.address) as another:
        assert another.ask("/x").answer().status == 200
    assert "kanarienvogel" not in proxy.output


def test_many_signals_are_no_harm(reloaded, client, first):
    """While it reloads, those that come are one."""
    proxy = reloaded.start(f'upstream = "{first.url}"')
    for _ in range(200):
        proxy.signal(signal.SIGHUP)
        assert client().ask("/x", b"{}").answer().status == 200
    proxy.wait_for("reloaded: nothing changed")
    assert proxy.output.count("reloaded: nothing changed") <= 200
    proxy.signal(signal.SIGTERM)
    proxy.signal(signal.SIGHUP)
    assert proxy.ended() == 0


class Asked:
    """Reloads of what ``read`` returns, and what they have put in force."""

    def __init__(self, read, file="", running=None):
        self.reactor, self.adopted, self.refused = TurningReactor(), [], []
        workers, running = Workers(self.reactor), running or Config()
        self._reloading = Reloading(
            self.reactor, workers, read, self._arrange, running, file=str(file)
        )

    def ask(self):
        self._reloading.ask(self._adopt).addErrback(lambda why: self.refused.append(str(why.value)))

    def _arrange(self, config):
        return SimpleNamespace(config=config, found=SimpleNamespace(packages=()))

    def _adopt(self, arrangement):
        self.adopted.append(arrangement.config)
        return []

    def turn_until(self, condition):
        """Turn, and let time pass, until ``condition`` holds."""

        def holds():
            self.reactor.advance(0.05)
            return condition()

        self.reactor.turn_until(holds)

    @property
    def graces(self):
        """What tells those apart that are in force one after the other."""
        return [config.grace for config in self.adopted]


NAMED = 'upstream = "http://127.0.0.1:9"\n'
"""All that a file which is cut behind its first line says."""
WHOLE = NAMED + "grace = 7\n"


class Written(Asked):
    """Reloads of a file that says the next of ``texts`` as soon as it was read once more."""

    def __init__(self, folder, *texts):
        self.file, self._texts = folder / "config.toml", list(texts)
        super().__init__(self._read, self.file, Config(upstream="http://127.0.0.1:9"))
        self.go_on()

    def go_on(self):
        text = self._texts.pop(0)
        self.file.unlink() if text is None else self.file.write_text(text)

    def _read(self, text):
        if self._texts:
            self.go_on()
        return load({}, {}, str(self.file), None, text)


@pytest.mark.parametrize("cut", ["", "# upstream\n", "upstream_silence = 30\n", NAMED[:-9], NAMED])
def test_a_file_that_is_read_too_early_is_read_again(tmp_path, cut):
    """What is cut, anywhere, is neither in force nor refused."""
    asked = Written(tmp_path, cut, NAMED[:-3], cut, WHOLE)
    asked.ask()
    asked.turn_until(lambda: asked.adopted or asked.refused)
    assert (asked.graces, asked.refused) == ([7.0], [])
    assert asked.adopted[0].upstream == "http://127.0.0.1:9"


def test_the_text_that_was_parsed_is_judged(tmp_path):
    """Not what the file says by then."""
    asked = Written(tmp_path, *["verbose = true\n", WHOLE] * 10)
    asked.ask()
    asked.turn_until(lambda: asked.adopted or asked.refused)
    assert asked.adopted == []
    assert asked.refused[0].endswith("is still being written")


def test_a_file_that_was_written_slowly_is_read_once_more(tmp_path):
    """Nobody can know that it was cut between two lines."""
    asked = Written(tmp_path, NAMED)
    asked.ask()
    asked.turn_until(lambda: asked.adopted)
    asked.file.write_text(WHOLE)
    asked.turn_until(lambda: len(asked.adopted) == 2)
    assert (asked.graces, asked.refused) == ([Config().grace, 7.0], [])


@pytest.mark.parametrize("cut", ["", NAMED[:-9], None])
def test_after_a_refusal_a_file_is_looked_at_some_more_times(tmp_path, cut):
    """It is in force as soon as it is whole, without another signal, and this comes to an end."""
    asked = Written(tmp_path, WHOLE, *[cut] * (cut is None))
    if cut is not None:
        asked.file.write_text(cut)
    asked.ask()
    asked.turn_until(lambda: asked.refused)
    assert (asked.graces, len(asked.refused)) == ([], 1)
    asked.file.write_text(WHOLE)
    asked.turn_until(lambda: asked.adopted)
    assert (asked.graces, len(asked.refused)) == ([7.0], 1)
    asked.file.write_text("")
    asked.ask()
    asked.turn_until(lambda: len(asked.refused) == 2)
    asked.turn_until(lambda: not asked.reactor.getDelayedCalls())
    asked.file.write_text(NAMED)
    asked.reactor.advance(60)
    assert asked.graces == [7.0]


def test_one_reload_at_a_time():
    gate, files = threading.Event(), [Config(grace=1.0), Config(grace=2.0)]

    def read(_):
        assert gate.wait(TIMEOUT)
        return files.pop(0)

    asked = Asked(read)
    for _ in range(3):
        asked.ask()
    gate.set()
    asked.turn_until(lambda: len(asked.adopted) == 2)
    assert asked.graces == [1.0, 2.0]


def test_what_never_ends_is_given_up():
    """Such as a plugin's file that loops: the next reload is one as ever."""
    gate, begun = threading.Event(), threading.Semaphore(0)

    def read(_):
        begun.release()
        while not gate.is_set():
            gate.wait(0.01)
        return Config(grace=1.0)

    asked = Asked(read)
    for number in range(4):
        asked.ask()
        assert begun.acquire(timeout=TIMEOUT)
        asked.reactor.advance(31)
        assert asked.adopted == []
        assert len(asked.refused) == number + 1
    assert {why.partition(": ")[2] for why in asked.refused} == {"it took longer than 30 s"}
    gate.set()
    asked.ask()
    asked.turn_until(lambda: asked.adopted)
    assert asked.graces == [1.0]


def test_the_summary_names_what_changed():
    transcript.holds("summary.txt", globals() | {"summary": summary})


def test_what_needs_a_restart_is_in_the_table():
    """A setting that is renamed must not begin to change by itself."""
    assert set(NEED_A_RESTART) < set(Config.__struct_fields__), "rename it in NEED_A_RESTART"


PLUGIN = """
from cacheproxy import SYSTEM_TEXT, Client, Rule
CLIENT = Client("*")
RULES = [Rule("clock", SYSTEM_TEXT, r"(?P<volatile>\\d\\d):00", "{}", "the clock")]
"""


def test_a_plugins_file_is_read_again(reloaded, client, first, tmp_path):
    """If its text changed. A broken edit keeps the old one and says so; then it is mended."""
    file = tmp_path / "clock.py"
    file.write_text(PLUGIN.format("00"))
    settings = f'upstream = "{first.url}"\nplugin = ["clock.py"]\n'
    proxy = reloaded.start(settings)

    def sent():
        path = b"/v1/chat/completions"
        assert client().ask(path.decode(), turn("it is 12:00", "hello")).answer().status == 200
        return relayed(first, path, b"hello").body

    assert b"it is 00:00" in sent()
    assert "nothing changed" in reloaded.reload(settings)
    file.write_text(PLUGIN.format("99"))
    assert "reloaded: plugin clock changed" in reloaded.reload(settings)
    assert b"it is 99:00" in sent()
    file.write_text(PLUGIN.format("77") + "\nraise ValueError('no')\n")
    line = reloaded.reload(settings)
    assert "settings not reloaded, the old ones stay in use: plugin " in line
    assert "clock.py, line 6: ValueError: no; fix the file, or leave it out" in line
    assert b"it is 99:00" in sent()
    file.write_text(PLUGIN.format("77"))
    assert "reloaded: plugin clock changed" in reloaded.reload(settings)
    assert b"it is 77:00" in sent()
    assert "reloaded: plugin, plugin clock changed" in reloaded.reload(f'upstream = "{first.url}"')
    assert b"it is 12:00" in sent()
    assert "Traceback" not in proxy.output


def test_a_package_installed_while_it_runs_is_on_after_a_reload(reloaded, client, first, tmp_path):
    """It says so; an update of it, and one that cannot be loaded, are named, too."""
    installed = tmp_path / "installed"
    installed.mkdir()
    settings = f'upstream = "{first.url}"\n'
    proxy = reloaded.start(settings, PYTHONPATH=str(installed))

    def sent():
        path = b"/v1/chat/completions"
        assert client().ask(path.decode(), turn("it is 12:00", "hello")).answer().status == 200
        return relayed(first, path, b"hello").body

    assert b"it is 12:00" in sent()
    (installed / "clock_plugin.py").write_text(PLUGIN.format("00"))
    info = distribution(installed, "clock-plugin", "clock_plugin", "clock")
    assert "reloaded: plugin clock changed" in reloaded.reload(settings)
    assert b"it is 00:00" in sent()
    assert "reloaded: nothing changed" in reloaded.reload(settings)
    (installed / "clock_plugin.py").write_text(PLUGIN.format("99"))
    shutil.rmtree(info)
    distribution(installed, "clock-plugin", "clock_plugin", "clock", version="1.1")
    line = reloaded.reload(settings)
    assert "reloaded: nothing changed; plugin clock needs a restart" in line
    assert b"it is 00:00" in sent()
    page = json.loads(client().ask("/_cacheproxy/health", method=b"GET").answer().body)
    assert page["packages"] == [
        {"name": "clock", "version": "1.0", "loaded": True, "outdated": True}
    ]
    (installed / "bad_plugin.py").write_text("raise ValueError('no')")
    distribution(installed, "bad-plugin", "bad_plugin", "bad")
    mark = proxy.mark()
    reloaded.reload(settings)
    assert "warn: plugin bad could not be loaded: ValueError: no" in proxy.wait_for("bad", mark)
