"""The proxy as its users run it: a twistd service in a process of its own, on a free port."""

from __future__ import annotations

import os
import re
import time
from typing import IO

from cacheproxy.asking import CommandError
from cacheproxy.child.process import ServerProcess
from cacheproxy.config import ENV_PREFIX

START_SECONDS = 120.0
"""Far more than it takes on a busy machine; one that cannot start ends at once."""
POLL_SECONDS = 0.02

_BANNER = re.compile(r"^cacheproxy\b.*?(http://127\.0\.0\.1:\d+)", re.MULTILINE)


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
            *("cacheproxy.child.twistd", "-n", "--pidfile=", "cacheproxy"),
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
