"""The proxy as its users run it: a twistd service in a process of its own, on a free port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Self

from cacheproxy.config import ENV_PREFIX
from cacheproxy.replay.errors import ReplayError

START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02

_BANNER = re.compile(r"^cacheproxy\b.*?(http://127\.0\.0\.1:\d+)", re.MULTILINE)


class ProxyService:
    """A running cacheproxy in front of ``upstream`` (a URL).

    The user's own settings are left aside, so that the result is the proxy's as it comes, or what
    the TOML file ``config`` says; ``edit_remote`` as in its configuration. The constructor returns
    when the service listens. Raises ReplayError if it does not.
    """

    url: str
    """``http://127.0.0.1:PORT``, without a slash at the end."""

    def __init__(
        self, upstream: str, *, edit_remote: bool = False, config: Path | None = None
    ) -> None:
        # read with pread alone: the place where the child writes is shared with us
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed in close)
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
            [
                *(sys.executable, "-m", "cacheproxy.demo.child"),
                *("-n", "--pidfile=", "cacheproxy"),
                *("--config", str(config or os.devnull), "--listen", "tcp:0:interface=127.0.0.1"),
                *("--upstream", upstream, *(["--edit-remote"] if edit_remote else [])),
                *("--state-dir", "none", "--poll", "0"),
            ],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=_environment(),
        )
        try:
            self.url = self._wait_for_banner()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the service. Idempotent."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def _wait_for_banner(self) -> str:
        """Return the URL the service announces."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ended = self._process.poll() is not None
            text = _whole(self._output).decode("utf-8", "replace")
            if found := _BANNER.search(text):
                return found[1]
            if ended:
                last = text.strip().splitlines()[-1:] or ["it said nothing"]
                raise ReplayError(f"The proxy did not start: {last[0]}")
            time.sleep(POLL_SECONDS)
        raise ReplayError(f"The proxy did not start within {START_SECONDS:.0f} s.")


def _environment() -> dict[str, str]:
    """Return our environment without the proxy's settings, output unbuffered."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    return kept | {"PYTHONUNBUFFERED": "1"}


def _whole(file: IO[bytes]) -> bytes:
    """Return all of ``file`` without moving the place in it, which a child writes at, too.

    A seek and a read would now and then make the child write over its own first line.
    """
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
