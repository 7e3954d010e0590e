"""Processes of ours without the second that each start takes: forked from one that has imported it.

``python -m tests.forking`` is that one. It does nothing but fork, so that a child is what a process
of its own would be: with its own environment, folder, signals, threads and end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent
IMPORTED = ("twisted.scripts.twistd", "cacheproxy.tap", "cacheproxy.proxy.transport.polling")
_MOST = 1 << 20
"""Bytes of a request: arguments and environment."""
_AT_START = ("PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONDEVMODE")
"""Variables that the interpreter itself reads when it starts: with one, a process must be new."""

_OURS = dict(os.environ)


class Forked:
    """A child as subprocess.Popen has it: Python with ``arguments``, which begin with -m or -c.

    ``stdin`` and ``stdout`` are pipes where that is asked for.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: Mapping[str, str],
        cwd: Path | str | None = None,
        start_new_session: bool = False,
        encoding: str = "utf-8",
    ) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self.stdin = self.stdout = None
        with contextlib.ExitStack() as stack:
            given = []
            for number, wanted in enumerate((stdin, stdout, stderr)):
                if wanted == subprocess.PIPE:
                    ends = os.pipe()
                    theirs = ends[0] if number == 0 else ends[1]
                    if number == 0:
                        self.stdin = os.fdopen(ends[1], "w", encoding=encoding)
                    else:
                        self.stdout = os.fdopen(ends[0], encoding=encoding)
                    stack.callback(os.close, theirs)
                elif wanted == subprocess.DEVNULL:
                    theirs = os.open(os.devnull, os.O_RDWR)
                    stack.callback(os.close, theirs)
                elif wanted == subprocess.STDOUT:
                    theirs = given[1]
                elif wanted is None:
                    theirs = number
                else:
                    theirs = wanted if isinstance(wanted, int) else wanted.fileno()
                given.append(theirs)
            self._ended, theirs = os.pipe()
            stack.callback(os.close, theirs)
            asked = [list(arguments), dict(env), str(cwd or Path.cwd()), start_new_session]
            self.pid = _nursery().fork(asked, [*given, theirs])

    def poll(self) -> int | None:
        """Its exit code as Popen has it, None while it runs."""
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self._reap()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._reap()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self) -> None:
        self.returncode = int(os.read(self._ended, 20) or b"-9")
        os.close(self._ended)


def popen(command: Sequence[str], **options: Any) -> Forked | subprocess.Popen[Any]:
    """What Popen does with ``command``, a Python with -m or -c, by a fork where that can be."""
    env = options.get("env") or os.environ
    path = _OURS.get("PYTHONPATH")
    is_new = path is not None and env.get("PYTHONPATH") != path
    is_new |= command[1] not in ("-m", "-c")  # an option of the interpreter's before it
    if is_new or any(env.get(name) != _OURS.get(name) for name in _AT_START):
        return subprocess.Popen(command, **options)
    options.pop("text", None)
    return Forked(command[1:], **options)


class _Nursery:
    """The process that forks."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            )

    def fork(self, asked: list[Any], descriptors: list[int]) -> int:
        """Fork one that does what is ``asked``; return its id."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], descriptors)
            return int(self._socket.recv(20))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_nurseries: list[_Nursery] = []


def _nursery() -> _Nursery:
    if not _nurseries:
        _nurseries.append(_Nursery())
        atexit.register(_nurseries[0].close)
    return _nurseries[0]


def main(number: int) -> None:
    """Fork for whoever holds the other end of socket ``number``, until it is closed."""
    for name in IMPORTED:
        __import__(name)
    assert "twisted.internet.reactor" not in sys.modules, "children would share it"
    gc.freeze()  # pages stay shared
    parent = socket.socket(fileno=number)
    wakes, wakened = os.pipe()
    os.set_blocking(wakened, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        ready = select.select([parent, wakes], [], [])[0]
        if wakes in ready:
            os.read(wakes, 4096)
            _reap(running)
        if parent not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(parent, _MOST, 4)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            parent.close()
            for each in (wakes, wakened, *running.values()):
                os.close(each)
            _become(json.loads(data), descriptors)
        running[pid] = descriptors.pop()
        for each in descriptors:
            os.close(each)
        parent.send(b"%d" % pid)


def _reap(running: dict[int, int]) -> None:
    """Say of each that has ended how."""
    for pid in tuple(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            end = running.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(end, b"%d" % os.waitstatus_to_exitcode(status))
            os.close(end)


def _become(asked: list[Any], descriptors: list[int]) -> None:
    arguments, env, folder, session = asked
    os.close(descriptors.pop())
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
    for each in {*descriptors}:
        if each > 2:
            os.close(each)
    if session:
        os.setsid()
    more = [one for one in env.get("PYTHONPATH", "").split(os.pathsep) if one]
    if "PYTHONPATH" not in os.environ:
        sys.path[1:1] = more
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in env)
    kind, program, *rest = arguments
    sys.path[0] = folder if kind == "-m" else ""
    sys.argv = [kind if kind == "-c" else program, *rest]
    if kind == "-c":
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    raise SystemExit


if __name__ == "__main__":
    main(int(sys.argv[1]))
