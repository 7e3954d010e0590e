"""The group rules: what each tree's rules alone cost, beside one bytes.find over the same body."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.bodies import CHAT
from bench.ours import Ours, python_path
from bench.peer import BENCHMARKS, Peer
from bench.run import Run

FIND = "one find"
SCAN = "one JSON scan"
BAR = "3 finds and a scan"
NAMES = ("80 KB", "500 KB", "2 MB", CHAT)


def measure(peers: Sequence[Peer], run: Run) -> None:
    """Rows: each tree's rules together (under its name) and by package; find; a scan."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in NAMES]
        for file in files:
            file.write_bytes(run.bodies[file.name].content(1))
        for peer in peers:
            if not isinstance(peer, Ours):
                continue
            path = os.pathsep.join((python_path(peer.tree), str(BENCHMARKS)))
            done = subprocess.run(
                [sys.executable, "-m", "bench.rulesalone", *map(str, files)],
                env={**os.environ, "PYTHONPATH": path},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                run.note(peer.name, f"rules: {done.stderr[-500:]}")
                continue
            for what, by_body in json.loads(done.stdout).items():
                row = what if what in (FIND, SCAN, BAR) else f"{peer.name}{what}"
                for body, microseconds in by_body.items():
                    run.figures.add("rules", body, row, microseconds)
                    size = len(run.bodies[body])
                    run.figures.add("rules MB/s", body, row, size / microseconds)
