"""A server in a process of its own, which dies with its parent, whatever the parent dies of.

Such a process leaves when its standard input ends, and has a session of its own: Ctrl-C does not
reach it. What it writes goes to a file without a name, unless one is given.

The proxy is one: ``python -m cacheproxy.child.process TWISTD-ARGUMENTS`` is the ``twistd`` command,
except that it leaves when its standard input ends.
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
"""Far more than it takes on a busy machine; one that cannot start ends at once."""
POLL_SECONDS = 0.02
_BANNER = re.compile(r"^cacheproxy\b.*?(http://127\.0\.0\.1:\d+)", re.MULTILINE)


class ServerProcess:
    """``python -m`` with ``arguments``, a module of ours first, in the environment ``env``.

    ``says``: whether its standard output is a pipe to be read, ``stdout``, instead of a part of the
    log. ``log``: an empty file for it. ``url``: where it listens, without a slash at the end; the
    constructor waits for that. ``popen``: what starts it.
    """

    popen: Callable[..., subprocess.Popen[str]] = subprocess.Popen

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        says: bool = False,
        log: IO[bytes] | None = None,
    ) -> None:
        # read with pread alone: the place where the child writes is shared with us
        self._log = log or tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed in close)
        self._last_log = ""
        self._process = self.popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if says else self._log,
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
        """Return the URL that it says it listens at; raises where it does not."""
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
        """What it says, if that is a pipe."""
        assert self._process.stdout is not None
        return self._process.stdout

    def log(self) -> str:
        """Return all it has logged so far, or had logged when it was closed."""
        if self._log.closed:
            return self._last_log
        # a seek and a read would now and then make the child write over its own first line
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode("utf-8", "replace")

    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def close(self) -> int:
        """Stop it and return its exit status, 0 if it left in peace. Idempotent."""
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
    """A running cacheproxy in front of ``upstream`` (a URL; empty where a config file names it).

    The user's own settings are left aside, so that the result is the proxy's as it comes, but for
    ``options`` of its command line; unless it is ``users``: then only where it listens, and that it
    keeps no totals, are not theirs. The constructor returns when the service listens. Raises
    CommandError if it does not. ``log``: as for ServerProcess.
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
        env = {
            name: value
            for name, value in os.environ.items()
            if users or not name.startswith(ENV_PREFIX)
        }
        super().__init__(arguments, env | {"PYTHONUNBUFFERED": "1"}, log=log)

    def _announced(self) -> str:
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
    """Wait for the end of standard input, then ask this process to stop."""
    # os.read, since a thread inside sys.stdin would hold its lock when the interpreter ends
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    from twisted.scripts.twistd import run

    threading.Thread(target=leave_with_parent, daemon=True).start()
    run()
