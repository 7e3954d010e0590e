"""llama.cpp's own HTTP server, on a free port of the loopback interface.

The server comes with the ``xllamacpp`` wheel. It has a process of its own, because it runs
threads that outlive an exception and cannot be stopped half-way.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from cacheproxy.child.process import ServerProcess
from cacheproxy.http_client import CommandError
from cacheproxy_demo.embedded.child import READY, UNAVAILABLE

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
"""One slot and no prompt cache beside it: only tokens in the slot can be reused."""

START_SECONDS = 60.0


class EmbeddedUnavailable(CommandError):  # noqa: N818 (not a fault, but a state of things)
    """The server cannot run on this machine; the message is one line, with what to install."""


class StartFailedError(CommandError):
    """The server did not start; the message has the end of its log."""


class LlamaServer(ServerProcess):
    """A running llama.cpp server.

    ``settings`` are attributes of xllamacpp's ``CommonParams`` by name (``n_ctx``,
    ``n_parallel``, ``slot_save_path``, …), laid over ``DEFAULTS``; two underscores stand for a dot
    (``cpuparams__n_threads``). The constructor returns when the model is loaded.

    Raises EmbeddedUnavailable if a library is missing, and StartFailedError if the server does not
    start for another reason (a setting, the model, the memory).
    """

    def __init__(self, model: Path, **settings: Setting) -> None:
        # llama.cpp's threads spin while they wait: on a busy machine that makes 60 tokens take
        # 12 s instead of 0.03 s.
        env = {"OMP_WAIT_POLICY": "passive", **os.environ}
        given = json.dumps(DEFAULTS | settings)
        super().__init__(["cacheproxy_demo.embedded.child", str(model), given], env, is_piped=True)

    def _announced(self) -> str:
        """Return the URL that the child prints; raises as the class does, after 60 s at most."""
        alarm = threading.Timer(START_SECONDS, self._process.kill)
        alarm.start()
        try:
            for line in self.stdout:
                if line.startswith(READY):
                    return line.removeprefix(READY).strip().rstrip("/")
                if line.startswith(UNAVAILABLE):
                    raise EmbeddedUnavailable(line.removeprefix(UNAVAILABLE).strip())
        finally:
            alarm.cancel()
        raise StartFailedError(f"The embedded llama.cpp did not start:\n{self.log()[-2000:]}")
