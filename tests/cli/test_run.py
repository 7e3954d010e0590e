"""``cacheproxy run``: a small client that speaks Messages, in processes and terminals."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from cacheproxy.cli.run import lists_models
from tests import transcript
from tests.cli.invoking import refused
from tests.forking import popen
from tests.proxy.harness import (
    TIMEOUT,
    Proxy,
    Upstream,
    environment,
    eventually,
    free_port,
    runs,
    whole,
)

pytestmark = pytest.mark.slow

PAGES = {
    b"/props": {"default_generation_settings": {"n_ctx": 65_536}, "total_slots": 4},
    b"/v1/models": {"data": [{"id": "m 'x' $(id)"}]},
}
ANSWER = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "yes"}],
    "usage": {"input_tokens": 25, "cache_read_input_tokens": 75, "output_tokens": 1},
}
LOST = ANSWER | {"usage": {"input_tokens": 2900, "cache_read_input_tokens": 10}}
CHANGED = re.compile(rb"Today's date: 2026-11-2[12]")
CLIENT = r"""#!{python}
import json, os, signal, sys, time
from urllib.request import Request, urlopen

def ask(turns=1, system="You are Claude Code, Anthropic's official CLI for Claude."):
    messages = []
    for turn in range(turns):
        messages.append(dict(role="user", content=f"question {{turn}}"))
        if words[0] == "break":
            system = f"{{system[:57]}}\nToday's date: 2026-11-2{{turn}}.\n{{'Be kind. ' * 900}}"
        body = dict(model=os.environ["ANTHROPIC_MODEL"], system=system, messages=messages)
        headers = {{"Content-Type": "application/json", "User-Agent": "claude-cli/1",
                   "X-Claude-Code-Session-Id": "3f9a"}}
        url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
        answer = json.load(urlopen(Request(url, json.dumps(body).encode(), headers)))
        messages.append(dict(role="assistant", content=answer["content"]))

def say(what):
    with open(os.environ["SAID"], "a") as file:
        print(what, file=file, flush=True)

def caught(number, _):
    say("caught " + signal.Signals(number).name)

words = sys.argv[3:]  # behind --settings FILE
say(json.dumps(dict(pid=os.getpid(), group=os.getpgrp(), words=words,
                    env={{k: v for k, v in os.environ.items() if "ANTHROPIC" in k or "_MS" in k}})))
what = words[0]
ask(int(words[1]) if len(words) > 1 else 1)
if what == "wait":
    for name in words[2:]:
        signal.signal(getattr(signal, name), caught)
    say("ready")
    while True:
        time.sleep(0.05)
elif what == "stop":
    say("ready")
    os.kill(os.getpid(), signal.SIGSTOP)
    say("goes on")
elif what == "raw":
    import tty
    tty.setraw(0)
    os.kill(os.getpid(), signal.SIGKILL)
elif what == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
elif what != "break":
    sys.exit(int(what))
"""


class Home:
    """A user with a client on the PATH, and a model server at some port."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.said_in = folder / "said"
        self.name = "claude"
        (folder / "bin").mkdir()
        (folder / "tmp").mkdir()
        program = folder / "bin/claude"
        program.write_text(CLIENT.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.before = self.files()

    @property
    def env(self):
        return environment(
            self.folder,
            PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}",
            SAID=str(self.said_in),
            TMPDIR=str(self.folder / "tmp"),
            XDG_STATE_HOME=str(self.folder / "state"),
            CACHEPROXY_BLOCK="",
            CACHEPROXY_STATE_DIR="user",
            ANTHROPIC_API_KEY="sk-mine",
        )

    def command(self, *words, options=()):
        start = [sys.executable, "-m", "cacheproxy", "run", "--upstream", self.url]
        return [*start, *options, self.name, *words]

    def run(self, *words, options=(), **environ):
        with self.started(*words, options=options, **environ) as process:
            process.wait(TIMEOUT)
        return process

    @contextlib.contextmanager
    def started(self, *words, options=(), ready="", **environ):
        """It runs until it has ended by itself; then ``lines`` is what it said.

        ``ready``: what the client says before the block begins.
        """
        with tempfile.TemporaryFile("w+") as said:
            command, env = self.command(*words, options=options), self.env | environ
            process = popen(command, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                eventually(lambda: ready in self.said() or process.poll() is not None)
                yield process
            finally:
                process.kill()
                process.wait(TIMEOUT)
                said.seek(0)
                process.lines = said.read().splitlines()

    def said(self):
        return self.said_in.read_text() if self.said_in.exists() else ""

    @property
    def client(self):
        return json.loads(self.said().splitlines()[0])

    def files(self):
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def left(self):
        """What was not there before, but for what the client itself writes."""
        return self.files() - self.before - {"said"}


@pytest.fixture
def upstream():
    server = Upstream()

    def answer(peer, received):
        page = PAGES.get(received.line.split(b" ")[1])
        if received.line.startswith(b"POST /v1/messages "):
            page = LOST if CHANGED.search(received.body) else ANSWER
        missing = whole(b"no", status=b"404 Not Found")
        found = whole(json.dumps(page).encode(), b"Content-Type: application/json")
        peer.send(missing if page is None else found)

    server.reset(answer)
    yield server
    server.close()


@pytest.fixture
def user(tmp_path, upstream):
    return Home(tmp_path, upstream.url)


def children(pid: int) -> list[int]:
    """The processes that ``pid`` has started, by Linux's own list."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


LOG = {"state", "state/cacheproxy", "state/cacheproxy/log"}
"""All that stays: the last log."""


def test_a_client_is_started_and_nothing_stays(user):
    """It gets its words and variables, its exit code is passed on; two lines, then one."""
    result = user.run("7", "3", "--resume", "--", "-x", API_TIMEOUT_MS="60000")
    assert result.returncode == 7, result.lines
    first, second, last = result.lines
    port = user.url.rpartition(":")[2]
    assert first.startswith(f"cacheproxy: llama-server at :{port} (m 'x' $(id), 65,536 context); ")
    assert first.endswith(" rules for claude")
    assert second.startswith("cacheproxy: http://127.0.0.1:")
    assert second.endswith("/_cacheproxy/   log: ~/state/cacheproxy/log")
    assert last == "cacheproxy: 3 turns, 75 % reused, no break."
    client = user.client
    assert client["words"] == ["7", "3", "--resume", "--", "-x"]
    assert client["env"]["ANTHROPIC_BASE_URL"] in second
    assert client["env"]["ANTHROPIC_MODEL"] == "m 'x' $(id)"
    assert "ANTHROPIC_API_KEY" not in client["env"]
    assert client["env"]["API_TIMEOUT_MS"] == "60000"  # the user's own
    assert client["env"]["CLAUDE_STREAM_IDLE_TIMEOUT_MS"] == "3600000"
    assert user.left() == LOG
    log = user.folder / "state/cacheproxy/log"
    assert "claude/3f9a" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_proxy_that_runs_is_used_and_stays(user):
    """Only the client's requests since then are told."""
    with Proxy(user.folder, "--upstream", user.url, CACHEPROXY_BLOCK="") as proxy:
        before = user.files() | {"said"}
        for turns in ("2", "1"):
            result = user.run("0", turns, options=("--proxy", proxy.url))
            _, second, last = result.lines
            assert second == f"cacheproxy: {proxy.url}/_cacheproxy/   (it runs already)"
            said = "2 turns" if turns == "2" else "1 turn"
            assert last.startswith(f"cacheproxy: {said}, 75 % reused, ")
            time.sleep(0.01)
        assert user.files() == before


def test_a_proxy_before_another_server_is_not_used(user):
    """What --upstream names is what is wanted."""
    with Proxy(user.folder, "--upstream", "http://127.0.0.1:9") as proxy:
        result = user.run("0", CACHEPROXY_PORT=str(proxy.address[1]))
        assert proxy.url not in result.lines[1]
        assert result.lines[1].endswith("log: ~/state/cacheproxy/log")


def test_one_whose_address_is_not_known_is_not_used(user):
    """It may listen at a Unix socket: the command starts its own.

    Two dashes may stand before the words: these alone go. A crash is 128 and the signal's number.
    """
    listen = f"unix:{user.folder / 'socket'}"
    result = user.run("--", "crash", "1", "--", "x", CACHEPROXY_LISTEN=listen)
    assert user.client["words"] == ["crash", "1", "--", "x"]
    assert result.returncode == 128 + signal.SIGSEGV
    assert result.lines[1].endswith("log: ~/state/cacheproxy/log")
    assert result.lines[-1] == "cacheproxy: 1 turn, 75 % reused, no break."


def test_a_file_that_cannot_be_written(user):
    """One line, and nothing stays."""
    plugin = user.folder / "emacs.py"
    plugin.write_text(
        "from cacheproxy import Client, Launch, Setup, hookimpl\n"
        "CLIENT = Client('emacs')\n"
        "@hookimpl\n"
        "def cacheproxy_setup(need):\n"
        "    return Setup(launch=Launch('claude', 'make', files={'no/folder': ''}))\n"
    )
    user.before = user.files()
    user.name = "emacs"
    (line,) = user.run(CACHEPROXY_PLUGIN=str(plugin)).lines
    assert line.startswith("cacheproxy: cannot write ")
    assert line.endswith("(No such file or directory): set TMPDIR to a folder with room")
    assert {name for name in user.left() if "pyc" not in name} == LOG


def test_two_at_once_have_a_log_each(user):
    """And a proxy. One that comes after has the first one's file: see the cure's."""
    with user.started("wait", ready="ready") as one:
        user.said_in.unlink()
        with user.started("wait", ready="ready") as other:
            assert user.left() >= LOG | {"state/cacheproxy/log.2"}
            for process in (one, other):
                process.send_signal(signal.SIGTERM)
            assert (one.wait(TIMEOUT), other.wait(TIMEOUT)) == (143, 143)
    assert user.left() == LOG | {"state/cacheproxy/log.2"}


def test_the_break_and_what_cures_it(user):
    """A proxy that ends with the client has the rule written at its end, if that is asked for."""
    last = user.run("break", "3").lines[-1]
    assert last.startswith("cacheproxy: 3 turns, 2 % reused, 2 breaks (date")
    assert last.endswith("). Cure, when it breaks again: cacheproxy run --cure claude")
    assert user.left() == LOG
    lines = user.run("break", "3", options=("--cure",)).lines
    assert lines[1].endswith("log: ~/state/cacheproxy/log")
    last = lines[-1]
    assert "). Cured: Made " in last
    file = user.folder / "cacheproxy/config.toml"
    assert str(file) in last
    assert "[[rule]]" in file.read_text()


def test_a_proxy_that_runs_is_asked_for_the_cure(user):
    """By a command that does it as it stands."""
    with Proxy(user.folder, "--upstream", user.url, CACHEPROXY_BLOCK="") as proxy:
        ways = ("--proxy", proxy.url)
        last = user.run("break", "2", options=ways).lines[-1]
        cure = last.partition("Cure: cacheproxy ")[2]
        assert cure.endswith(f" --propose --apply --proxy {proxy.url}")
        command = [*user.command()[:3], *cure.split()]
        done = subprocess.run(
            command, env=user.env, capture_output=True, timeout=TIMEOUT, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Cure" not in user.run("break", "2", options=ways).lines[-1]


NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in ("HUP", "USR1", "QUIT")]


@pytest.mark.parametrize("name", ["INT", *NIGHTLY])
def test_what_is_sent_to_it_alone_is_passed_on(user, name):
    """Without a terminal Ctrl-C is a signal like others; SIGTERM is sent to two at once."""
    number = getattr(signal, f"SIG{name}")
    with user.started("wait", ready="ready") as process:
        assert user.client["group"] == os.getpgid(process.pid)
        (pid,) = set(children(process.pid)) - {user.client["pid"]}
        process.send_signal(number)
        assert process.wait(TIMEOUT) == 128 + number
        assert not runs(pid)
    assert process.lines[-1].startswith("cacheproxy: 1 turn, ")
    assert user.left() == LOG


def test_a_client_that_takes_a_signal_goes_on(user):
    """So does the command, until the client ends."""
    with user.started("wait", "1", "SIGTERM", ready="ready") as process:
        process.send_signal(signal.SIGTERM)
        eventually(lambda: "caught SIGTERM" in user.said())
        assert process.poll() is None
        os.kill(user.client["pid"], signal.SIGKILL)
        assert process.wait(TIMEOUT) == 128 + signal.SIGKILL
    assert process.lines[-1].startswith("cacheproxy: 1 turn, ")
    assert user.left() == LOG


def test_the_proxy_dies_with_the_command(user):
    """Even if that is killed."""
    with user.started("wait", ready="ready") as process:
        (pid,) = set(children(process.pid)) - {user.client["pid"]}
        process.kill()
        eventually(lambda: not runs(pid))
        os.kill(user.client["pid"], signal.SIGKILL)


class Terminal:
    """A terminal, in which the command is the foreground's first process."""

    def __init__(self, user: Home, *words: str) -> None:
        self.user = user
        self.output = b""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execvpe(sys.executable, user.command(*words), user.env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.file)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def key(self, key: bytes) -> None:
        os.write(self.file, key)

    def ended(self) -> int:
        with contextlib.suppress(OSError):  # EIO: all of the other side are gone
            while chunk := os.read(self.file, 4096):
                self.output += chunk
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def lines(self) -> list[str]:
        return self.output.decode().replace("\r", "").splitlines()


def test_ctrl_c_goes_to_the_client_once(user):
    """The command survives it to say its last line."""
    with Terminal(user, "wait", "1", "SIGINT") as terminal:
        eventually(lambda: "ready" in user.said())
        terminal.key(b"\x03")
        eventually(lambda: "caught SIGINT" in user.said())
        time.sleep(0.3)
        assert user.said().count("caught") == 1
        assert runs(terminal.pid)
        os.kill(user.client["pid"], signal.SIGKILL)
        assert terminal.ended() == 128 + signal.SIGKILL
        assert terminal.lines[-1].startswith("cacheproxy: 1 turn, ")  # not behind "^C"
    assert user.left() == LOG


def test_ctrl_c_that_ends_the_client(user):
    """Its exit code is that of the signal."""
    with Terminal(user, "wait") as terminal:
        eventually(lambda: "ready" in user.said())
        terminal.key(b"\x03")
        time.sleep(0.2)
        terminal.key(b"\x03")  # an impatient user: the client has gone, the last line comes
        assert terminal.ended() in (128 + signal.SIGINT, 1)  # Python ends with 1, or by the signal
        assert terminal.lines[-1].startswith("cacheproxy: 1 turn, ")
    assert user.left() == LOG


def test_a_crash_leaves_the_terminal_as_it_was(user):
    """Cooked, so that the last line stands at the beginning of a line."""
    with Terminal(user, "raw") as terminal:
        assert terminal.ended() == 128 + signal.SIGKILL
        assert b"\r\ncacheproxy: 1 turn, " in terminal.output
        assert terminal.output.endswith(b"\r\n")


def test_it_stops_and_goes_on_with_the_client(user):
    """As a shell sees it: with job control it gets the terminal back."""
    shell = f"{shlex.join(user.command('stop'))}; echo stopped $?; fg; echo gone $?; exit"
    pid, file = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "-i"], user.env | {"PS1": ""})
    os.write(file, shell.encode() + b"\n")
    output = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(file, 4096):
            output += chunk
    os.close(file)
    os.waitpid(pid, 0)
    text = output.decode()
    assert re.search(rf"\nstopped ({128 + signal.SIGSTOP}|{128 + signal.SIGTSTP})", text)
    assert "goes on" in user.said()
    assert "cacheproxy: 1 turn, " in text
    assert text.replace("\r", "").rstrip().endswith("exit") or "\ngone 0" in text.replace("\r", "")


def test_without_a_server_one_line_says_how_to_start_one(user, upstream):
    """With exit code 2; the client is not started."""
    upstream.close()
    result = user.run("0")
    (line,) = result.lines
    assert result.returncode == 2
    assert f"no model server answers at {user.url}: start one (llama-server -m " in line
    assert "cacheproxy demo --serve" in line
    assert user.said() == ""


def test_what_it_says_before_anything_starts(upstream, monkeypatch, tmp_path):
    def lists(status, body):
        """Whether what answers so lists models; None: it may, with a key or later."""
        upstream.reset(lambda peer, _: peer.send(whole(body, status=status)))
        return lists_models(upstream.url)

    def said(*words, path=""):
        """The line of a run that is refused, where ``path`` alone is on the PATH."""
        monkeypatch.setenv("PATH", path or str(tmp_path / "bin"))
        return refused("run", *words).removeprefix("cacheproxy: ")

    names = {"lists": lists, "said": said, "folder": tmp_path, "port": free_port()}
    transcript.holds("run.txt", globals() | names)
