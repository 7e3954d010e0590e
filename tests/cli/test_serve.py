"""``cacheproxy serve``: twistd in the foreground, with the options of the one table."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from cacheproxy.cli.settings import arguments
from cacheproxy.config import options
from tests.cli.invoking import invoke, printed, refused
from tests.proxy.harness import Client, Proxy, Upstream, environment, whole

UPSTREAM = "http://127.0.0.1:9"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cacheproxy", "serve", *arguments]


class Serving(Proxy):
    """A running ``cacheproxy serve``."""

    command = staticmethod(command)


@pytest.mark.slow
def test_two_run_in_one_folder_and_leave_nothing_in_it(tmp_path):
    """No twistd.pid, which would keep the second from starting."""
    (tmp_path / "work").mkdir()
    with (
        Serving(tmp_path / "work", "--upstream", UPSTREAM) as one,
        Serving(tmp_path / "work", "--upstream", UPSTREAM) as two,
    ):
        assert one.address != two.address
        assert not (tmp_path / "work/twistd.pid").exists()
        one.signal(signal.SIGTERM)
        two.signal(signal.SIGINT)
        assert (one.ended(), two.ended()) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("poll", ["0", "10"])
def test_the_banner(tmp_path, poll):
    """Who listens, whether the upstream answers, and where the dashboard is."""
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(b"{}")))
    clients = {"CACHEPROXY_BLOCK": ""}
    with Serving(tmp_path, "--poll", poll, "--upstream", upstream.url, **clients) as proxy:
        url, text = proxy.url, proxy.output
        assert f"{url}  →  {upstream.url}" in proxy.lines[0]
        assert "upstream    ONLINE: model server" in text
        assert f"dashboard   {url}/_cacheproxy/" in text
        assert f"cacheproxy run --proxy {url} claude" in text
    upstream.close()
    with Serving(tmp_path, "--poll", poll, "--upstream", UPSTREAM) as proxy:
        assert "upstream    OFFLINE" in proxy.output


@pytest.mark.slow
def test_settings_reach_the_proxy(tmp_path):
    """From the command line and the environment, as twistd cacheproxy takes them."""
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(b'{"ok":true}')))
    arguments = ("--upstream", upstream.url, "--max-target", "1")
    token = b"X-Cacheproxy-Token: sesame"

    def status(target, *fields):
        with Client(proxy.address) as client:
            return client.ask(target, None, *fields, method=b"GET").answer().status

    with Serving(tmp_path, *arguments, CACHEPROXY_TOKEN="sesame") as proxy:
        assert status("/x") == 401
        assert status("/x", token) == 200
        assert status("/" + "x" * 2000, token) == 414
    upstream.close()


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("none/p.pid", "cannot write {folder}/none/p.pid"),
        ("mine.pid", "which the pid file names, is still running"),
        ("odd.pid", "non-numeric"),
    ],
)
def test_what_is_wrong_with_a_pid_file_is_one_line(tmp_path, file, words):
    """With twistd's exit code, 1: no setting is wrong."""
    (tmp_path / "mine.pid").write_text(str(os.getppid()))
    (tmp_path / "odd.pid").write_text("odd")
    line = refused("serve", "--pidfile", tmp_path / file, code=1)
    assert words.format(folder=tmp_path) in line


def test_a_wrong_setting_is_one_line(capfd):
    """With exit code 2."""
    assert invoke("serve", "--port", "http").exit_code == 2
    assert capfd.readouterr().err == "cacheproxy: --port must be a whole number, not text\n"


@pytest.mark.slow
def test_a_port_that_another_has_is_one_line_too(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = subprocess.run(
            command("--port", str(listener.getsockname()[1])),
            env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("cacheproxy: ")
    assert "choose another port with --port" in line


@pytest.mark.slow
def test_a_pid_file_that_is_asked_for(tmp_path):
    """It names the process, and goes with it; one of a process that is gone does not matter."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    file = tmp_path / "p.pid"
    file.write_text(str(gone.pid))
    with Serving(tmp_path, "--upstream", UPSTREAM, "--pidfile", "p.pid") as proxy:
        assert int(file.read_text()) == proxy.pid
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
    assert not file.exists()


def test_every_row_of_the_table_is_an_option():
    """There is no second list."""
    text = " ".join(printed("serve", "--help").split())
    for row in options():
        assert f"--{row.flag} " in text
        assert row.help.split(";")[0] in text


def test_options_become_a_command_line_again():
    """Exactly what was given."""
    given = {"config": "a b.toml", "port": "0", "verbose": True, "otel": False, "listen": None}
    assert list(arguments(given)) == ["--config=a b.toml", "--port=0", "--verbose"]
