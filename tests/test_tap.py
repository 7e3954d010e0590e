"""``twistd cacheproxy``: its options, and how it refuses to start."""

import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from twisted.internet.error import CannotListenError

from cacheproxy import sources, tap, units
from cacheproxy.config import options
from cacheproxy.daemon import listening
from cacheproxy.proxy.upstream.upstream import UpstreamURL
from cacheproxy.tap import Options
from tests import installed, transcript
from tests.proxy.harness import (
    TIMEOUT,
    Client,
    Proxy,
    Upstream,
    environment,
    free_port,
    running,
    twistd,
)


@pytest.fixture(autouse=True)
def _nobodys_file(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "default_file", lambda: tmp_path / "none.toml")


def parsed(*arguments):
    """The settings that a command line makes."""
    found = Options()
    found.parseOptions(arguments)
    return found.settings


def refused(capfd, *arguments):
    """The one line on stderr of a command line that cannot be used."""
    with pytest.raises(SystemExit) as caught:
        parsed(*arguments)
    assert caught.value.code == 2
    (line,) = capfd.readouterr().err.splitlines()
    return line


def test_file_environment_and_command_line(monkeypatch, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("port = 1\nmax_body = 1\nconnect_timeout = 1.0")
    monkeypatch.setenv("CACHEPROXY_PORT", "2")
    monkeypatch.setenv("CACHEPROXY_MAX_BODY", "2")
    found = parsed("-c", str(file), "--port", "3")
    assert (found.port, found.max_body, found.connect_timeout) == (3, 2, 1.0)


def test_the_help_lists_every_option_of_the_table(capsys):
    with pytest.raises(SystemExit) as caught:
        parsed("--help")
    assert not caught.value.code
    text = " ".join(capsys.readouterr().out.split())
    for option in options():
        assert f"--{option.flag}{'' if option.kind is bool else '='} " in text
        assert option.help in text
    assert "[default: http://localhost:8080]" in text
    assert "-c, --config=" in text


RULE = "[[rule]]\nname = 'x'\nwhere = 'user'\npattern = '{}'\nreplacement = ''\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with config files that are wrong, to run in."""
    (tmp_path / "bad.toml").write_text("port = ")
    (tmp_path / "unknown.toml").write_text("ports = 1")
    (tmp_path / "rule.toml").write_text(RULE.format("("))
    (tmp_path / "twice.toml").write_text(RULE.format("a") + RULE.format("b"))
    (tmp_path / "locked.lock").symlink_to(str(os.getpid()))  # as Twisted locks a socket
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder):
    """Fill in a port that is taken, and one that is free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names = {"{busy}": str(listener.getsockname()[1]), "{free}": str(free_port())}

        def fill(line):
            for name, value in names.items():
                line = line.replace(name, value)
            return line.split() if "--port" in line else ["--port", "0", *line.split()]

        fill.names = names
        yield fill


def test_what_each_command_line_comes_to(capfd, command, folder, monkeypatch):
    """Settings, or one line that says what is wrong and what mends it, and an exit code."""
    installed.load_once(monkeypatch)

    def start(line, *, only_read=False):
        found = Options()
        try:
            found.parseOptions(line.split() if only_read else command(line))
            if only_read:
                return transcript.plainly(found.settings)
            service = tap.makeService(found)
            try:
                service.privilegedStartService()
            finally:
                service.stopService()
        except SystemExit as end:
            said, error = capfd.readouterr()
            assert (said, "kanarienvogel" in error) == ("", False)
            (one,) = error.splitlines()
            for name, value in command.names.items():
                one = one.replace(value, name)
            one = one.replace(str(folder), "FOLDER")
            return f"{end.code} {one}"

    transcript.holds("starts.txt", {"__file__": __file__, "start": start})


@pytest.mark.slow
def test_twistd_ends_with_that_line_and_code(folder, command):
    """And leaves no pid file, else the next start would be refused for it."""

    def run(line):
        done = subprocess.run(
            twistd(*command(line), options=("-n", f"--pidfile={len(line)}.pid")),
            env=environment(folder),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr.count("\n"), done.stderr[:12]

    lines = ("--upstream localhost", "--config bad.toml", "--port {busy}")
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(run, lines))
    assert said == [(code, "", 1, "cacheproxy: ") for code in (2, 2, 1)]
    assert list(folder.glob("*.pid")) == []


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "left"), [((), []), (("--pidfile=my.pid",), ["my.pid"])])
def test_in_the_foreground_it_writes_no_pid_file_that_nobody_asked_for(tmp_path, asked, left):
    """Though twistd's own default is one in the working folder."""

    class Foreground(Proxy):
        command = staticmethod(partial(twistd, options=("-n", *asked)))

    with Foreground(tmp_path, "--upstream", "http://127.0.0.1:9") as proxy:
        assert [file.name for file in tmp_path.glob("*.pid")] == left
    assert proxy.ended() == 0
    assert list(tmp_path.glob("*.pid")) == []


def test_a_config_file_is_the_same_wherever_it_is_read_from(monkeypatch, tmp_path):
    """A daemon may have gone to another folder by the time it reads the file again."""
    (tmp_path / "a.toml").write_text("max_body = 7")
    monkeypatch.chdir(tmp_path)
    for arguments, environ in ((["-c", "a.toml"], ""), ([], "a.toml")):
        monkeypatch.setenv("CACHEPROXY_CONFIG", environ)
        found = Options()
        found.parseOptions(arguments)
        monkeypatch.chdir("/")
        assert found.read().max_body == 7
        monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_it_listens_where_an_endpoint_says(tmp_path):
    path = tmp_path / "s"
    upstream = Upstream()
    with running(
        twistd("--listen", f"unix:{path}", "--upstream", upstream.url),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as process:
        assert re.match(rf"cacheproxy \S+   {path}  →  ", process.stdout.readline())
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(TIMEOUT)
            sock.connect(str(path))
            sock.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := sock.recv(65536):
                answer += data
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b'{"ok":true}')
        process.terminate()
        said, _ = process.communicate(timeout=TIMEOUT)
    upstream.close()
    assert "critical: " not in said


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_localhost_is_found_on_either_protocol(tmp_path, host):
    """A server may listen on ::1 alone."""
    family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listener:
        upstream = Upstream(listener)
        url = f"http://localhost:{upstream.port}"
        with Proxy(tmp_path, "--upstream", url) as proxy, Client(proxy.address) as client:
            assert client.ask("/x").answer().body == b'{"ok":true}'
            assert client.ask("/x").answer().status == 200


def is_same(host, upstream):
    return listening.is_same(host, UpstreamURL.parse(upstream))


def test_an_upstream_that_is_the_proxy_itself():
    transcript.holds("itself.txt", globals())


def test_a_failure_to_listen_without_a_number():
    assert listening.cannot_listen(CannotListenError("i", 1, "odd"), "tcp:1") == (
        "cannot listen on tcp:1: odd: check --interface"
    )
    assert listening.cannot_listen(ValueError("odd"), "x") == "cannot listen on x: odd"


def test_it_runs_without_being_installed(monkeypatch):
    monkeypatch.setattr(units, "distribution_version", _not_found)
    assert units.version() == "0 (not installed)"


def _not_found(name):
    raise PackageNotFoundError(name)


def test_the_harness_runs_this_checkout():
    assert Path(tap.__file__).parent.parent == Path(__file__).parent.parent
