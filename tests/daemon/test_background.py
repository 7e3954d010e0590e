"""The proxy in the background, with a pid file, and on a terminal that closes."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from tests.proxy.harness import (
    TIMEOUT,
    Client,
    environment,
    eventually,
    free_port,
    running,
    sound_upstream,
    twistd,
)
from tests.test_life import Held, refuses

pytestmark = pytest.mark.slow


@pytest.fixture
def upstream():
    with sound_upstream() as found:
        yield found


def reloads_and_ends(pid, port, held, pidfile, log):
    """A daemon reads its settings again, and at its end lets the ``held`` answer finish."""
    os.kill(pid, signal.SIGHUP)
    eventually(lambda: "reloaded: nothing changed" in log.read_text())
    with Client(("127.0.0.1", port)) as client:
        pieces = client.pieces(client.ask("/x", b"{}").begin())
        next(pieces)
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: "stopping: 1 open answer" in log.read_text())
        held.go.set()
        assert b"".join(pieces) == b"data: 2\n\n"
    eventually(lambda: not pidfile.exists())


def test_the_pid_file_goes_whatever_the_exit_code(tmp_path, upstream):
    upstream.reset(Held())
    pid_file = tmp_path / "proxy.pid"
    command = twistd(
        *("--port", "0", "--upstream", upstream.url, "--grace", "0"),
        options=("-n", f"--pidfile={pid_file}"),
    )
    with running(
        command, env=environment(tmp_path), stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        address = process.stdout.readline().split()[2].removeprefix("http://").split(":")
        with Client((address[0], int(address[1]))) as client:
            next(client.pieces(client.ask("/x", b"{}").begin()))
            assert int(pid_file.read_text()) == process.pid
            process.terminate()
            assert process.wait(TIMEOUT) == 1
    assert not pid_file.exists()


def test_as_a_daemon(tmp_path, upstream):
    """It reloads and drains in the background, too; a start that fails says why."""
    upstream.reset(held := Held())
    port = free_port()
    arguments = ("--port", str(port), "--upstream", upstream.url)
    options = (f"--pidfile={tmp_path}/pid", f"--logfile={tmp_path}/log")
    log = tmp_path / "log"

    def run(options):
        return subprocess.run(
            twistd(*arguments, options=options),
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    started = run(options)
    assert (started.returncode, started.stderr) == (0, "")
    pid = int((tmp_path / "pid").read_text())
    try:
        eventually(lambda: "Ready." in log.read_text())
        again = run((f"--pidfile={tmp_path}/pid2", f"--logfile={tmp_path}/log2"))
        assert again.returncode == 1
        assert f"cannot listen on tcp:{port}" in again.stderr
        assert "Traceback" not in again.stderr + (tmp_path / "log2").read_text()
        assert not (tmp_path / "pid2").exists()
        reloads_and_ends(pid, port, held, tmp_path / "pid", log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def on_a_terminal(command, folder, **environ):
    """Run ``command`` on a terminal of its own; yield its process's id and the other end."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, environment(folder, **environ))
    try:
        yield pid, master
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def read_until(descriptor, text):
    """Read until ``text`` has come."""
    said = b""
    while text not in said:
        assert select.select([descriptor], [], [], TIMEOUT)[0], said
        said += os.read(descriptor, 1 << 16)


def test_a_terminal_that_closes_ends_it(tmp_path, upstream):
    """Its SIGHUP is no reload: nobody would see the proxy any more. Open answers are finished."""
    port = free_port()
    held = Held()
    command = twistd("--port", str(port), "--upstream", upstream.url)
    with on_a_terminal(command, tmp_path) as (pid, master):
        read_until(master, b"Ready.")
        os.kill(pid, signal.SIGHUP)  # from a person it is the one to reload
        read_until(master, b"reloaded: nothing changed")
        upstream.reset(held)
        with Client(("127.0.0.1", port)) as client:
            pieces = client.pieces(client.ask("/x", b"{}").begin())
            next(pieces)
            os.close(master)
            eventually(lambda: refuses(("127.0.0.1", port)))
            os.kill(pid, signal.SIGHUP)  # as the shell does
            time.sleep(0.2)
            held.go.set()
            assert b"".join(pieces) == b"data: 2\n\n"
        ended = []
        eventually(lambda: ended.append(os.waitpid(pid, os.WNOHANG)) or ended[-1][0])
        assert os.waitstatus_to_exitcode(ended[-1][1]) == 0


def test_a_terminal_that_closes_does_not_end_it_under_nohup(tmp_path, upstream):
    port = free_port()
    command = twistd("--port", str(port), "--upstream", upstream.url)
    nohup = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *command]
    with on_a_terminal(nohup, tmp_path) as (pid, master):
        read_until(master, b"Ready.")
        os.close(master)
        os.kill(pid, signal.SIGHUP)
        with Client(("127.0.0.1", port)) as client:
            assert client.ask("/x").answer().status == 200
            time.sleep(0.2)
            assert client.ask("/x").answer().status == 200
        os.kill(pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
