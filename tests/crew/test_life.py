"""The life of a proxy with workers: how it starts and stops, and what it survives."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.proxy.harness import (
    TIMEOUT,
    Client,
    answer_ok,
    environment,
    eventually,
    free_port,
    running,
    twistd,
)
from tests.test_life import (
    PATIENT,
    Held,
    on_a_terminal,
    read_until,
    refuses,
    reloads_and_ends,
)

from .conftest import alive, relayed


def run(folder, *arguments, **environ):
    """What a start that should fail says: (exit code, lines)."""
    done = subprocess.run(
        twistd("--port", "0", *arguments),
        env=environment(folder, **environ),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("number", ["0", "-1", "65", "many"])
def test_a_wrong_number_of_workers_is_one_line(tmp_path, number):
    """With exit code 2."""
    code, lines = run(tmp_path, f"--workers={number}")
    assert code == 2
    (line,) = lines
    assert line.startswith("cacheproxy: the command line: workers: ")


def test_both_serve_and_end_at_once(start):
    """With 0, and all that were idle are closed; the port is free again."""
    crew = start(*PATIENT)
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        assert one.ask("/x").answer().status == 200
        assert other.ask("/x").answer().status == 200
        crew.proxy.signal(signal.SIGTERM)
        assert one.wait_closed()
        assert other.wait_closed()
        assert crew.proxy.ended() == 0
    assert "stopping" in crew.proxy.lines
    assert "warn: " not in crew.proxy.output
    socket.create_server(crew.proxy.address).close()


def test_open_answers_of_all_are_finished(start, upstream):
    """They are counted together, nobody new is let in, and it ends with 0."""
    held = Held()
    crew = start(script=held)
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        streams = [client.pieces(client.ask("/x", b"{}").begin()) for client in (one, other)]
        assert [next(stream) for stream in streams] == [b"data: 1\n\n"] * 2
        crew.proxy.signal(signal.SIGTERM)
        assert crew.proxy.wait_for("stopping") == (
            "stopping: 2 open answers may take up to 30 s; a second signal breaks off what is left"
        )
        assert refuses(crew.proxy.address)
        held.go.set()
        assert [b"".join(stream) for stream in streams] == [b"data: 2\n\n"] * 2
        assert crew.proxy.ended() == 0
    # The records of the last answers came through, too.
    assert len([line for line in crew.proxy.lines if "POST /x" in line]) == 2


def test_what_does_not_end_in_time_is_broken_off(start):
    """All of it, and the exit code says so."""
    crew = start("--grace", "2", script=Held())
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        streams = [client.pieces(client.ask("/x", b"{}").begin()) for client in (one, other)]
        assert [next(stream) for stream in streams] == [b"data: 1\n\n"] * 2
        crew.proxy.signal(signal.SIGTERM)
        for stream in streams:
            with pytest.raises((EOFError, ConnectionError)):
                next(stream)
        assert crew.proxy.ended() == 1
    assert "warn: 2 open answers broken off" in crew.proxy.lines


def test_a_second_signal_breaks_off_at_once(start):
    """In all workers."""
    crew = start(*PATIENT, script=Held())
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        for client in (one, other):
            next(client.pieces(client.ask("/x", b"{}").begin()))
        crew.proxy.signal(signal.SIGTERM)
        crew.proxy.wait_for("stopping: 2 open answers")
        crew.proxy.signal(signal.SIGINT)
        assert crew.proxy.ended() == 1


def test_a_worker_that_hangs_does_not_keep_it(start):
    """When its time is over it is ended, and the exit code says so."""
    crew = start("--grace", "0.2")
    with crew.through(crew.pids[0]):
        os.kill(crew.pids[0], signal.SIGSTOP)
        crew.proxy.signal(signal.SIGTERM)
        assert crew.proxy.ended() == 1
    assert crew.proxy.lines[-1] == "warn: 1 open answer broken off"


def test_a_worker_that_dies(start, upstream):
    """Its connections are gone, the other's go on, and another takes its place."""
    held = Held()
    crew = start(script=held)
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        doomed = one.pieces(one.ask("/x", b"{}").begin())
        stream = other.pieces(other.ask("/x", b"{}").begin())
        assert next(doomed) == next(stream) == b"data: 1\n\n"
        os.kill(crew.pids[0], signal.SIGKILL)
        with pytest.raises((EOFError, ConnectionError)):
            next(doomed)
        said = crew.proxy.wait_for("takes its place")
        assert said == "warn: worker 1 was ended by signal 9; another takes its place"
        held.go.set()
        assert b"".join(stream) == b"data: 2\n\n"
    upstream.reset(answer_ok)
    eventually(lambda: crew.pids[0] not in crew.workers() and len(crew.workers()) == 2)
    for pid in crew.workers():
        with crew.through(pid) as client:
            assert client.ask("/x").answer().status == 200


def test_a_worker_that_is_told_to_end(start):
    """It finishes what is open, and another takes its place."""
    held = Held()
    crew = start(script=held)
    with crew.through(crew.pids[1]) as client:
        stream = client.pieces(client.ask("/x", b"{}").begin())
        next(stream)
        os.kill(crew.pids[1], signal.SIGTERM)
        time.sleep(0.2)
        held.go.set()
        assert b"".join(stream) == b"data: 2\n\n"
    assert "worker 2 ended with exit code 0; another" in crew.proxy.wait_for("takes its place")
    eventually(lambda: crew.pids[1] not in crew.workers() and len(crew.workers()) == 2)


def test_a_keeper_that_dies(start):
    """Its workers finish what is open, take nobody new, and end."""
    held = Held()
    crew = start(script=held)
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        streams = [client.pieces(client.ask("/x", b"{}").begin()) for client in (one, other)]
        assert [next(stream) for stream in streams] == [b"data: 1\n\n"] * 2
        crew.proxy.signal(signal.SIGKILL)
        crew.proxy.ended()
        eventually(lambda: refuses(crew.proxy.address))
        held.go.set()
        assert [b"".join(stream) for stream in streams] == [b"data: 2\n\n"] * 2
    eventually(lambda: not any(map(alive, crew.pids)))


def test_a_keeper_that_is_slow(start):
    """No request waits for it; what it has to write down comes when it comes."""
    crew = start()
    with crew.through(crew.pids[0]) as client:
        os.kill(crew.proxy.pid, signal.SIGSTOP)
        try:
            for _ in range(5):
                assert client.ask("/slow", b"x" * 1000).answer().status == 200
        finally:
            os.kill(crew.proxy.pid, signal.SIGCONT)
    eventually(lambda: crew.proxy.output.count("POST /slow") == 5)


def test_a_keeper_that_is_too_slow(start):
    """What does not fit is not written down, which is told of once; the requests go on."""
    crew = start()
    with crew.through(crew.pids[0]) as client:
        os.kill(crew.proxy.pid, signal.SIGSTOP)
        try:
            for _ in range(12):
                assert client.ask("/slow", b"x" * (4 << 20)).answer().status == 200
        finally:
            os.kill(crew.proxy.pid, signal.SIGCONT)
        said = crew.proxy.wait_for("too slow for worker 1")
        assert "exchanges are dropped from its records" in said
        assert client.ask("/after", b"x").answer().status == 200
        crew.proxy.wait_for("POST /after")
    assert 5 <= crew.proxy.output.count("POST /slow") < 12


BREAKS = """
import os, sys
if "crew.worker" in " ".join(sys.orig_argv):
    if {condition}:
        print("no luck today", file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)
"""


def broken(folder, condition):
    """Let Python fail at its start, in a worker alone, if ``condition`` holds."""
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(BREAKS.format(condition=condition))
    path = os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path}


def test_no_worker_can_be_started(tmp_path):
    """It ends with 1, and with one line that says why."""
    code, lines = run(tmp_path, "--workers=2", **broken(tmp_path, "True"))
    assert code == 1
    (line,) = (line for line in lines if line.startswith("critical: "))
    assert line == (
        "critical: no worker could be started: it ended with exit code 3: no luck today"
    )
    assert "Traceback" not in "\n".join(lines)


def test_one_worker_can_not_be_started_at_first(start, tmp_path):
    """The other serves meanwhile; it is tried again."""
    file = tmp_path / "started"
    condition = f"not os.path.exists({str(file)!r}) and not open({str(file)!r}, 'x').close()"
    crew = start(**broken(tmp_path, condition))
    assert len(crew.workers()) == 2
    with Client(crew.proxy.address) as client:
        assert client.ask("/x").answer().status == 200


def test_the_settings_are_read_again_in_all(start, upstream, tmp_path):
    """All or none of them."""
    rule = """
        [[rule]]
        name = "stamp"
        where = "system"
        pattern = 'stamp=\\d+'
        replacement = "stamp={}"
    """
    file = tmp_path / "config.toml"
    file.write_text("")
    crew = start("--config", str(file))
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:

        def sent():
            found = []
            for client in (one, other):
                body = b'{"model": "m", "system": "stamp=7", "messages": []}'
                assert client.ask("/v1/messages", body).answer().status == 200
                found.append(relayed(upstream, b"/v1/messages").body.partition(b"stamp=")[2][:1])
            return found

        def reload(text):
            since = crew.proxy.mark()
            file.write_text(text)
            crew.proxy.signal(signal.SIGHUP)
            return crew.proxy.wait_for("reloaded", since)

        assert sent() == [b"7", b"7"]
        assert reload(rule.format(1)) == "reloaded: rule changed"
        assert sent() == [b"1", b"1"]
        assert reload("workers = 3").startswith("warn: not reloaded") is False
        assert sent() == [b"7", b"7"]
        assert reload(rule.format(2)) == "reloaded: rule changed"
        assert reload("rule = 5").startswith("warn: not reloaded")
        assert sent() == [b"2", b"2"]
        os.kill(crew.pids[0], signal.SIGKILL)
        crew.proxy.wait_for("takes its place")
        eventually(lambda: len(crew.workers()) == 2)
    (new,) = (pid for pid in crew.workers() if pid not in crew.pids)
    with crew.through(new) as one, crew.through(crew.pids[1]) as other:
        assert sent() == [b"2", b"2"]


def test_a_terminal_sends_its_signal_to_all(tmp_path, upstream):
    """Open answers are finished all the same: the keeper says when."""
    upstream.reset(held := Held())
    port = free_port()
    command = twistd("--port", str(port), "--upstream", upstream.url, "--workers=2")
    with on_a_terminal(command, tmp_path) as (pid, master):
        read_until(master, b"Ready.")
        with Client(("127.0.0.1", port)) as client:
            pieces = client.pieces(client.ask("/x", b"{}").begin())
            next(pieces)
            os.write(master, b"\x03")
            read_until(master, b"stopping: 1 open answer")
            held.go.set()
            assert b"".join(pieces) == b"data: 2\n\n"
        reading = threading.Thread(target=lambda: drain(master), daemon=True)
        reading.start()
        ended = []
        eventually(lambda: ended.append(os.waitpid(pid, os.WNOHANG)) or ended[-1][0])
        assert os.waitstatus_to_exitcode(ended[-1][1]) == 0


def drain(descriptor):
    with contextlib.suppress(OSError):
        while os.read(descriptor, 1 << 16):
            pass


def test_as_a_daemon(tmp_path, upstream):
    """It serves, reloads and drains in the background, and its pid file goes."""
    upstream.reset(held := Held())
    port = free_port()
    options = (f"--pidfile={tmp_path}/pid", f"--logfile={tmp_path}/log")
    arguments = ("--port", str(port), "--upstream", upstream.url, "--workers=2")
    log = tmp_path / "log"
    started = subprocess.run(
        twistd(*arguments, options=options),
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (started.returncode, started.stderr) == (0, "")
    pid = int((tmp_path / "pid").read_text())
    try:
        eventually(lambda: "Ready." in log.read_text())
        reloads_and_ends(pid, port, held, tmp_path / "pid", log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_by_the_command(tmp_path, upstream):
    """``cacheproxy serve`` has the option, and a pid file."""
    command = [sys.executable, "-P", "-m", "cacheproxy", "serve", "--port=0", "--workers=2"]
    command += ["--pidfile", str(tmp_path / "pid"), "--upstream", upstream.url]
    with running(
        command, env=environment(tmp_path), stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        lines = iter(process.stdout)
        said = [next(lines)]
        while not said[-1].startswith("Ready."):
            said.append(next(lines))
        assert int((tmp_path / "pid").read_text()) == process.pid
        assert any("  workers     2: processes " in line for line in said)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
    assert not (tmp_path / "pid").exists()


def test_a_socket_in_the_file_system(tmp_path, upstream):
    """Both serve it, a worker's end leaves it there, and the end of all removes it."""
    path = tmp_path / "socket"
    listen = ("--listen", f"unix:{path}", "--upstream", upstream.url, "--workers=2")
    with running(
        twistd(*listen),
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("Ready."):
                break
        try:
            assert path.is_socket(), said
            (line,) = (line for line in said if "  workers " in line)
            first, second = (int(pid) for pid in line.partition("processes ")[2].split(", "))
            for stopped in (first, second):
                os.kill(stopped, signal.SIGSTOP)
                assert ask_unix(path).startswith(b"HTTP/1.1 200")
                os.kill(stopped, signal.SIGCONT)
            os.kill(first, signal.SIGTERM)
            assert any("takes its place" in line for line in process.stdout)
            assert ask_unix(path).startswith(b"HTTP/1.1 200")
            process.terminate()
            rest = process.stdout.read()
            assert process.wait(TIMEOUT) == 0, rest
            assert "Traceback" not in rest
        finally:
            process.kill()
    assert not path.exists()


def ask_unix(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(TIMEOUT)
        sock.connect(str(path))
        sock.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = b""
        while data := sock.recv(1 << 16):
            found += data
        return found


def test_tls_is_refused(tmp_path):
    """In one line: its keys are not handed on."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"]
    subprocess.run(
        [*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    listen = f"ssl:0:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
    code, lines = run(tmp_path, "--workers=2", "--listen", listen)
    assert code == 2
    (line,) = lines
    assert "several workers share a plain socket alone: leave --workers out" in line


def test_workers_share_the_limit_of_connections(start):
    """Half of it is each one's."""
    crew = start("--max-connections", "5")
    with contextlib.ExitStack() as stack:
        mine = [stack.enter_context(crew.through(crew.pids[0])) for _ in range(3)]
        assert [client.ask("/x").answer().status for client in mine] == [200] * 3
        os.kill(crew.pids[1], signal.SIGSTOP)
        with Client(crew.proxy.address) as one_too_many:
            assert one_too_many.ask("/x").answer().status == 503
        os.kill(crew.pids[1], signal.SIGCONT)
        with crew.through(crew.pids[1]) as other:
            assert other.ask("/x").answer().status == 200


def test_no_descriptor_is_left(start):
    """Neither by requests nor by our own pages, in keeper and workers."""
    crew = start()

    def count():
        pids = (crew.proxy.pid, *crew.pids)
        return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]

    for pid in crew.pids:
        with crew.through(pid) as client:
            assert client.ask("/x", b"{}").answer().status == 200
    before = []
    eventually(lambda: before.append(count()) or before[-1] == (before[-2:] or [0])[0])
    for number in range(30):
        with crew.through(crew.pids[number % 2]) as client:
            client.ask("/x", b"{}")
            if number % 3:
                assert client.answer().status == 200
                client.ask("/_cacheproxy/live", method=b"GET").begin()
    eventually(lambda: all(now <= was for now, was in zip(count(), before[-1], strict=True)))
