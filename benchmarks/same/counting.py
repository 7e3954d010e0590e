"""Counts the Python calls or the bytecodes of another process, in all its threads, by function."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

_COUNTING = """
import collections, json, os, signal, sys, threading
counts, wanted = collections.Counter(), False
def named(frame):
    file = frame.f_code.co_filename
    file = frame.f_globals.get("__file__", "") if file == "<string>" else file
    return f"{file}:{frame.f_code.co_qualname}"
def write(*_):
    global wanted
    if not wanted:
        wanted = True
        begin()
    with open("counts.tmp", "w") as file:
        file.write(json.dumps(counts.copy()))
    os.replace("counts.tmp", "counts.json")
signal.signal(signal.SIGUSR2, write)
"""
_CALLS = """
def count(frame, event, argument):
    if event == "call":
        counts[named(frame)] += 1
def begin():
    pass
threading.setprofile(count)
sys.setprofile(count)
"""
_BYTECODES = """
def trace(frame, event, argument):
    if not wanted:
        return None
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    name = named(frame)
    def count(frame, event, argument):
        if event == "opcode":
            counts[name] += 1
        return count
    return count
def begin():
    for frame in sys._current_frames().values():
        while frame is not None:
            frame.f_trace, frame = trace(frame, "call", None), frame.f_back
threading.settrace(trace)
sys.settrace(trace)
"""
COUNTING = {"calls": _COUNTING + _CALLS, "bytecodes": _COUNTING + _BYTECODES}
"""What that process does first, by what is counted. Bytecodes count from the first question on:
each costs a call, by which a process would start for minutes."""


def counted(pid: int, folder: Path) -> Counter[str]:
    """Return what each function took in the process ``pid``, which runs in ``folder``.

    Functions are named by their file and their name, with a colon between.
    """
    (folder / "counts.json").unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    until = time.monotonic() + 60
    while not (folder / "counts.json").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return Counter(json.loads((folder / "counts.json").read_text()))


def is_ours(file: str, tree: Path) -> bool:
    """Whether a function of ``file`` is of ``tree``: of the package or of a distribution of it."""
    path = file.rpartition("site-packages/")[2]
    if path == file:
        path = file.removeprefix(f"{tree}/")
    return path != file and path.startswith(
        ("cacheproxy/", "cacheproxy_", "clients/", "tools/", "twisted/plugins/cacheproxy")
    )
