"""llama.cpp's own HTTP server, on a free port of the loopback interface.

The server comes with the ``xllamacpp`` wheel. It gets a process of its own, because it runs
threads that outlive an exception and cannot be stopped half-way. The child leaves when its
standard input ends, so it dies with its parent, whatever the parent dies of.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Self

from cacheproxy.embedded.child import READY, UNAVAILABLE

if TYPE_CHECKING:
    from pathlib import Path

Setting = bool | int | float | str | list[str]

DEFAULTS: dict[str, Setting] = {
    "cache_ram_mib": 0,
    "endpoint_metrics": True,
    "endpoint_slots": True,
    "fit_params": False,
    "model_alias": ["random"],
    "n_ctx": 65_536,
    "n_parallel": 1,
    "ui": False,
    "verbosity": 4,
}
"""One slot and no prompt cache beside it: what is reused is what the slot still holds."""

START_SECONDS = 60.0
STOP_SECONDS = 10.0


class EmbeddedUnavailable(Exception):  # noqa: N818 (not a fault, but a state of things)
    """The server cannot run on this machine; the message is one line that says what to install."""


class StartFailedError(RuntimeError):
    """The server did not come up; the message holds the end of its log."""


class LlamaServer:
    """A running llama.cpp server.

    ``settings`` are attributes of xllamacpp's ``CommonParams`` by name (``n_ctx``,
    ``n_parallel``, ``slot_save_path``, …), laid over ``DEFAULTS``; two underscores stand for a dot
    (``cpuparams__n_threads``). The constructor returns when the model is loaded.

    Raises EmbeddedUnavailable when a library is missing, and StartFailedError when it does not
    start for another reason (a setting, the model, the memory).
    """

    url: str
    """``http://127.0.0.1:PORT``, without a slash at the end."""

    def __init__(self, model: Path, **settings: Setting) -> None:
        # read with pread alone: the place where the child writes is shared with us
        self._log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed in close)
        self._last_log = ""
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
            [
                *(sys.executable, "-m", "cacheproxy.embedded.child"),
                *(str(model), json.dumps(DEFAULTS | settings)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            # llama.cpp's threads spin while they wait: on a busy machine that makes 60 tokens
            # take 12 s instead of 0.03 s.
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )
        try:
            self.url = self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def log(self) -> str:
        """Return all the server has logged so far, or had logged when it was closed."""
        if self._log.closed:
            return self._last_log
        return _whole(self._log).decode("utf-8", "replace")

    def close(self) -> int:
        """Stop the server and return its exit status, 0 if it left in peace. Idempotent."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._last_log = self.log()
        self._log.close()
        return status

    def _wait_until_ready(self) -> str:
        """Return the URL the child announces."""
        assert self._process.stdout is not None
        alarm = threading.Timer(START_SECONDS, self._process.kill)
        alarm.start()
        try:
            for line in self._process.stdout:
                if line.startswith(READY):
                    return line.removeprefix(READY).strip().rstrip("/")
                if line.startswith(UNAVAILABLE):
                    raise EmbeddedUnavailable(line.removeprefix(UNAVAILABLE).strip())
        finally:
            alarm.cancel()
        raise StartFailedError(f"The embedded llama.cpp did not start:\n{self.log()[-2000:]}")


def _whole(file: IO[bytes]) -> bytes:
    """Return all of ``file`` without moving the place in it, which a child writes at, too.

    A seek and a read would now and then make the child write over its own first line.
    """
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
