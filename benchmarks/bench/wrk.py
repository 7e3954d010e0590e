"""Requests a second, measured by wrk."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.bodies import Body

_SCRIPT = Path(__file__).with_name("wrk.lua")
_MOST = 16
"""Requests that are sent in turn, each of a session of its own."""


@dataclass(frozen=True)
class Rate:
    """``p99``: seconds for a whole exchange."""

    requests: int
    seconds: float
    failed: int
    p99: float

    @property
    def per_second(self) -> float:
        return (self.requests - self.failed) / self.seconds


def missing() -> str:
    return "" if shutil.which("wrk") else "apt-get install wrk"


def run(port: int, body: Body, connections: int, seconds: float, folder: Path) -> Rate:
    """Load 127.0.0.1:``port`` over connections that are kept alive. Raises RuntimeError."""
    files = []
    for number in range(max(2, min(_MOST, 20_000_000 // len(body)))):
        file = folder / f"request-{port}-{number}"
        file.write_bytes(body.of_session(number).request(port, number))
        files.append(str(file))
    done = subprocess.run(
        [
            *("wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s"),
            *("-s", str(_SCRIPT), f"http://127.0.0.1:{port}", "--", *files),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 60,
    )
    for name in files:
        Path(name).unlink()
    try:
        found = done.stdout.strip().splitlines()[-1].split()
        requests, microseconds, errors, status, p99 = map(int, found)
    except (ValueError, IndexError):
        raise RuntimeError(f"wrk: {done.stdout[-300:]}{done.stderr[-300:]}") from None
    return Rate(requests, microseconds / 1e6, errors + status, p99 / 1e6)
