"""A server in a child process, which ends with its parent, however that ends.

The child exits when its standard input ends, and has a session of its own: Ctrl-C does not reach
it. Its output goes to a temporary file without a name, unless a file is given.

The proxy can be such a server: ``python -m cacheproxy.child.process TWISTD-ARGUMENTS`` is the
``twistd`` command, except that it exits when its standard input ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Self

from cacheproxy.config import ENV_PREFIX
from cacheproxy.http_client import CommandError

STOP_SECONDS = 10.0
START_SECONDS = 120.0
"""Seconds for a start, at most: far more than a busy machine needs; a failed start ends at once."""
POLL_SECONDS = 0.02
_BANNER = re.compile(r"^cacheproxy\b.*?(http://127\.0\.0\.1:\d+)", re.MULTILINE)


class ServerProcess:
    """A child that runs ``python -m`` with ``arguments``, our module first; ``env``: environment.

    ``is_piped``: whether its standard output is a pipe, ``stdout``, instead of a part of the log.
    ``log``: an empty file for the log. ``url``: the URL at which it listens, without a slash at the
    end; the constructor waits for it. ``popen``: callable that starts the process.
    """

    popen: Callable[..., subprocess.Popen[str]] = subprocess.Popen

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        is_piped: bool = False,
        log: IO[bytes] | None = None,
    ) -> None:
        # Read it with pread alone: the child's file position is shared with us.
        self._log = log or tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed in close)
        self._last_log = ""
        self._process = self.popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if is_piped else self._log,
            stderr=self._log,
            text=True,
            env=env,
            start_new_session=True,
        )
        try:
            self.url = self._announced()
        except BaseException:
            self.close()
            raise

    def _announced(self) -> str:
        """Return the URL at which the child listens, once it does; raises if it does not."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def stdout(self) -> IO[str]:
        """The pipe of its standard output; needs ``is_piped``."""
        assert self._process.stdout is not None
        return self._process.stdout

    def log(self) -> str:
        """Return the text of the log so far; after ``close``, the log at its end."""
        if self._log.closed:
            return self._last_log
        # A seek would now and then make the child write over its own first line.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode("utf-8", "replace")

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        """Send the process the signal ``number``."""
        self._process.send_signal(number)

    def close(self) -> int:
        """Stop the child, by force after 10 s; return its exit status, 0 if regular. Idempotent."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._last_log = self.log()
        self._log.close()
        return status


class ChildProxy(ServerProcess):
    """A running cacheproxy in front of ``upstream`` (a URL; "" if a config file names it).

    The user's own settings are ignored: the proxy has its defaults, except for ``options`` of its
    command line. With ``users`` the user's settings apply, but the proxy listens at a free port
    and stores no totals. The constructor returns when the service listens, and raises CommandError
    if it does not. ``log``: as for ServerProcess.
    """

    def __init__(
        self, upstream: str, *options: str, users: bool = False, log: IO[bytes] | None = None
    ) -> None:
        arguments = [
            *("cacheproxy.child.process", "-n", "--pidfile=", "cacheproxy"),
            *(() if users else ("--config", os.devnull, "--poll", "0")),
            *("--listen", "tcp:0:interface=127.0.0.1", "--state-dir", "none"),
            *(("--upstream", upstream) if upstream else ()),
            *options,
        ]
        names = [name for name in os.environ if users or not name.startswith(ENV_PREFIX)]
        env = {name: os.environ[name] for name in names} | {"PYTHONUNBUFFERED": "1"}
        super().__init__(arguments, env, log=log)

    def _announced(self) -> str:
        """Wait for the URL in the proxy's log and return it; raises CommandError if none comes."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ended = self.has_ended()
            text = self.log()
            if found := _BANNER.search(text):
                return found[1]
            if ended:
                last = text.strip().splitlines()[-1:] or ["it gave no reason"]
                raise CommandError(f"The proxy did not start: {last[0]}")
            time.sleep(POLL_SECONDS)
        raise CommandError(f"The proxy did not start within {START_SECONDS:.0f} s.")


def leave_with_parent() -> None:
    """Wait for the end of standard input, then send this process SIGTERM."""
    # os.read, since a thread inside sys.stdin would have its lock when the interpreter ends
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    from twisted.scripts.twistd import run

    threading.Thread(target=leave_with_parent, daemon=True).start()
    run()
