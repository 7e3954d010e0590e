"""``twistd cacheproxy``: its options, and how it refuses to start."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import CannotListenError

from cacheproxy import sources, tap
from cacheproxy.config import Config, options
from cacheproxy.daemon import listening, process_parts
from cacheproxy.proxy.upstream.upstream import UpstreamURL
from cacheproxy.tap import Options
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


def test_no_options_make_the_defaults():
    """Exactly those of the table."""
    assert parsed() == Config()


def test_options_make_settings():
    """As numbers, lists and flags."""
    found = parsed(
        *("--upstream", "http://h:1", "--port=0", "--enable", "a,b", "--edit-remote"),
        *("--max-body", "3", "--connect-timeout", "0.5", "--verbose"),
    )
    assert found == Config(
        upstream="http://h:1",
        port=0,
        enable=("a", "b"),
        edit_remote=True,
        max_body=3,
        connect_timeout=0.5,
        verbose=True,
    )


def test_file_environment_and_command_line(monkeypatch, tmp_path):
    """The later wins; ``-c`` names the file."""
    file = tmp_path / "a.toml"
    file.write_text("port = 1\nmax_body = 1\nconnect_timeout = 1.0")
    monkeypatch.setenv("CACHEPROXY_PORT", "2")
    monkeypatch.setenv("CACHEPROXY_MAX_BODY", "2")
    found = parsed("-c", str(file), "--port", "3")
    assert (found.port, found.max_body, found.connect_timeout) == (3, 2, 1.0)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--nonsense"], "--nonsense"),
        (["--workers", "2"], "--workers no longer exists: one process serves a team"),
        (["--port"], "--port"),
        (["--edit-remote=1"], "--edit-remote"),
        (["8080"], "unexpected argument '8080'"),
        (["--port", "0", "http://h"], "unexpected argument 'http://h'"),
        (["--port", "http"], "--port must be"),
        (["--max-body", "0"], "--max-body must be"),
        (["--config", "/nowhere/x.toml"], "/nowhere/x.toml"),
    ],
)
def test_what_cannot_be_read_is_one_line(capfd, arguments, names):
    """It names the mistake; the exit code is 2."""
    line = refused(capfd, *arguments)
    assert line.startswith("cacheproxy: ")
    assert names in line


def test_the_help_lists_every_option_of_the_table(capsys):
    """With its sentence and its default."""
    with pytest.raises(SystemExit) as caught:
        parsed("--help")
    assert not caught.value.code
    text = " ".join(capsys.readouterr().out.split())
    for option in options():
        assert f"--{option.flag}{'' if option.kind is bool else '='} " in text
        assert option.help in text
    assert "[default: http://localhost:8080]" in text
    assert "-c, --config=" in text


# Mistakes that show only when the service is made or starts: (arguments, exit code, words).
MISTAKES = [
    (["--upstream", "localhost"], 2, "write it like http://localhost:8080"),
    (["--upstream", "http://u:kanarienvogel@h"], 2, "user, query or fragment"),
    (["--enable", "nosuch-rule"], 2, "no rule is called nosuch-rule"),
    (["--disable", "nosuch-rule"], 2, "no rule is called nosuch-rule"),
    (["--block", "nosuch-plugin"], 2, "block names no installed plugin: nosuch-plugin"),
    (["--listen", "nonsense:1"], 2, "listen 'nonsense:1' is not an endpoint"),
    (["--listen", "tcp"], 2, "listen 'tcp' is not an endpoint: 'port' is missing"),
    (["--listen", "tcp:http"], 2, "is not an endpoint: 'http' is no number"),
    (["--listen", "tcp:0:host=::1"], 2, "is not an endpoint: it has no 'host'"),
    (["--listen", "unix:socket:mode=rw"], 2, "is not an endpoint: 'rw' is no mode, such as 660"),
    (["--listen", "ssl:0:privateKey=/nowhere/key.pem"], 2, "No such file"),
    (["--listen", "tcp:99999"], 1, "cannot listen on tcp:99999"),
    (["--listen", "unix:/nowhere/socket"], 1, "No such file or directory: make its folder first"),
    (["--listen", "unix:bad.toml"], 1, "Address already in use: something that is no socket of"),
    (["--listen", "unix:{locked}"], 1, "Cannot acquire lock: another program listens there"),
    (["--listen", f"unix:{'x' * 200}"], 1, "xx: AF_UNIX path too long"),
    (["--interface", "nosuch.invalid"], 1, "check --interface"),
    (["--interface", "203.0.113.7"], 1, "check --interface"),
    (["--capture", "bad.toml"], 2, "bad.toml"),
    (["--capture", "bad.toml/captures"], 2, "bad.toml/captures"),
    (["--capture", "/proc/nowhere"], 2, "/proc/nowhere"),
    (["--config", "none.toml"], 2, "none.toml: No such file"),
    (["--config", "~nosuch-user/a.toml"], 2, "a.toml: No such file"),
    (["--config", "."], 2, "Is a directory"),
    (["--config", "bad.toml"], 2, "bad.toml is not valid TOML"),
    (["--config", "unknown.toml"], 2, "unknown.toml, line 1: ports is not a setting"),
    (["--config", "rule.toml"], 2, "in the config file: rule 'x': bad pattern"),
    (["--config", "twice.toml"], 2, "rule 'x' comes from both"),
    (["--port", "{busy}"], 1, "Address already in use: choose another port with --port"),
    (["--port", "{free}", "--interface", "0.0.0.0"], 2, "set a secret in CACHEPROXY_TOKEN"),
]
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
        busy = str(listener.getsockname()[1])

        def fill(arguments):
            free = str(free_port())
            names = {"{busy}": busy, "{free}": free, "{locked}": "locked"}
            given = [re.sub(r"\{\w+\}", lambda it: names[it[0]], part) for part in arguments]
            return given if "--port" in given else ["--port", "0", *given]

        yield fill


def check(said, code, words):
    """Check what a start that was refused has said: exit code, stdout and stderr."""
    assert said[:2] == (code, ""), said
    (line,) = said[2].splitlines()
    assert line.startswith("cacheproxy: "), said
    assert words in line, said
    assert "kanarienvogel" not in line, said


@pytest.mark.parametrize(("arguments", "code", "words"), MISTAKES)
def test_a_mistake_is_one_line_and_an_exit_code(capfd, command, arguments, code, words):
    """It says what is wrong and what mends it."""

    def start():
        found = Options()
        found.parseOptions(command(arguments))
        service = tap.makeService(found)
        try:
            service.privilegedStartService()
        finally:
            service.stopService()

    with pytest.raises(SystemExit) as caught:
        start()
    check((caught.value.code, *capfd.readouterr()), code, words)


@pytest.mark.slow
def test_twistd_ends_with_that_line_and_code(folder, command):
    """Nothing is started, and there is no traceback."""
    mistakes = [MISTAKES[0], *(m for m in MISTAKES if "bad.toml" in m[0] or m[0][0] == "--port")]

    def run(arguments):
        result = subprocess.run(
            twistd(*arguments),
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return result.returncode, result.stdout, result.stderr

    commands = [command(arguments) for arguments, *_ in mistakes]
    with ThreadPoolExecutor(2) as pool:
        for said, (_, code, words) in zip(pool.map(run, commands), mistakes, strict=True):
            check(said, code, words)


@pytest.mark.slow
def test_a_refused_start_leaves_no_pid_file(tmp_path):
    """Else the next start would be refused for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = twistd("--port", str(listener.getsockname()[1]))
        command[command.index("--pidfile=")] = "--pidfile=proxy.pid"
        result = subprocess.run(
            command, env=environment(tmp_path), cwd=tmp_path, check=False, timeout=120
        )
    assert result.returncode == 1
    assert not (tmp_path / "proxy.pid").exists()


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
    """On a socket in the file system, for one."""
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


@pytest.mark.parametrize(
    ("host", "upstream", "same"),
    [
        (IPv4Address("TCP", "127.0.0.1", 8081), "http://localhost:8081", True),
        (IPv4Address("TCP", "127.0.0.1", 8081), "http://127.0.0.1:8081/v1", True),
        (IPv4Address("TCP", "127.0.0.1", 8081), "https://127.0.0.1:8081", True),
        (IPv4Address("TCP", "0.0.0.0", 8081), "http://localhost:8081", True),
        (IPv4Address("TCP", "127.0.0.1", 8081), "http://0.0.0.0:8081", True),
        (IPv6Address("TCP", "::1", 8081), "http://[::]:8081", True),
        (IPv4Address("TCP", "192.168.1.2", 8081), "http://0.0.0.0:8081", False),
        (IPv6Address("TCP", "::", 8081), "http://[::1]:8081", True),
        (IPv6Address("TCP", "::1", 8081), "http://[::1]:8081", True),
        (IPv4Address("TCP", "192.168.1.2", 8081), "http://192.168.1.2:8081", True),
        (IPv4Address("TCP", "127.0.0.1", 8081), "http://localhost:8080", False),
        (IPv4Address("TCP", "127.0.0.1", 8081), "http://gpubox:8081", False),
        (IPv4Address("TCP", "192.168.1.2", 8081), "http://localhost:8081", False),
        (IPv4Address("TCP", "127.0.0.1", 80), "http://localhost", True),
        (UNIXAddress(b"/tmp/s"), "http://localhost:8081", False),
    ],
)
def test_an_upstream_that_is_the_proxy_itself(host, upstream, same):
    """By address and port, loopback under any of its names."""
    assert listening.is_same(host, UpstreamURL.parse(upstream)) is same


def test_a_failure_to_listen_without_a_number():
    """Some endpoints fail with texts of their own."""
    assert listening.cannot_listen(CannotListenError("i", 1, "odd"), "tcp:1") == (
        "cannot listen on tcp:1: odd: check --interface"
    )
    assert listening.cannot_listen(ValueError("odd"), "x") == "cannot listen on x: odd"


def test_it_runs_without_being_installed(monkeypatch):
    """From a checkout, the version says so."""
    monkeypatch.setattr(process_parts, "distribution_version", _not_found)
    assert process_parts.version() == "0 (not installed)"


def _not_found(name):
    raise PackageNotFoundError(name)


def test_the_harness_runs_this_checkout():
    """Not some other version that is installed."""
    assert Path(tap.__file__).parent.parent == Path(__file__).parent.parent
