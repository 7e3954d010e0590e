"""Counts the Python calls of another process, in all its threads, by the file that is entered."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

COUNTING = """
import collections, json, os, signal, sys, threading
calls = collections.Counter()
def count(frame, event, argument):
    if event == "call":
        file = frame.f_code.co_filename
        calls[frame.f_globals.get("__file__", "") if file == "<string>" else file] += 1
def write(*_):
    with open("calls.tmp", "w") as file:
        file.write(json.dumps(calls.copy()))
    os.replace("calls.tmp", "calls.json")
signal.signal(signal.SIGUSR2, write)
threading.setprofile(count)
sys.setprofile(count)
"""
"""What that process does first."""


def counted(pid: int, folder: Path) -> Counter[str]:
    """Return how often the process ``pid``, which runs in ``folder``, has entered each file."""
    (folder / "calls.json").unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    until = time.monotonic() + 10
    while not (folder / "calls.json").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return Counter(json.loads((folder / "calls.json").read_text()))


def is_ours(file: str, tree: Path) -> bool:
    """Whether ``file`` is of ``tree``: of the package or of one of its distributions."""
    path = file.rpartition("site-packages/")[2]
    if path == file:
        path = file.removeprefix(f"{tree}/")
    return path != file and path.startswith(
        ("cacheproxy/", "cacheproxy_", "clients/", "tools/", "twisted/plugins/cacheproxy")
    )
