"""What the tests themselves do on busy machines, in the background, and when something hangs."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).with_name("conftest.py")
SIGNALS = (signal.SIGINT, signal.SIGHUP)


SLOW = """
import pytest

started = []

@pytest.fixture(scope="module")
def server():
    started.append(1)
    assert len(started) > {failures}, "too slow"
    yield

@pytest.mark.parametrize("number", range(6))
def test_it(server, number):
    pass

def test_count():
    assert len(started) == {starts}
"""
HANGS = """
import threading

def test_hangs():
    threading.Event().wait()

def test_goes_on():
    pass
"""
STARTS = """
import signal, subprocess, sys, pytest

@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ignored(number):
    program = f"import signal; print(signal.getsignal({number:d}) is signal.SIG_IGN)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert said.stdout == b"False\\n"
"""


def test_what_our_conftest_does(tmp_path):
    """A slow start fails one test, the next has another try; what never starts is tried thrice.

    A test that hangs fails where it hangs, and the others go on. What tests start does not ignore
    a signal that they ignore, as they would in the background of a shell, or under nohup.
    """
    conftest = CONFTEST.read_text(encoding="utf-8")
    conftest, changed = re.subn(r"(?m)^LONGEST = .*", "LONGEST = 2", conftest)
    assert changed == 1
    for name, source in {
        "conftest": conftest,
        "test_once": SLOW.format(failures=1, starts=2),
        "test_never": SLOW.format(failures=100, starts=3),
        "test_hanging": HANGS,
        "test_starting": STARTS,
    }.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA"],
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if "PYTEST" not in name},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        for number, before in ignored.items():
            signal.signal(number, before)
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) (test_\w+)\.py::", done.stdout, re.MULTILINE)
    assert Counter(outcomes) == {
        ("ERROR", "test_once"): 1,
        ("PASSED", "test_once"): 6,
        ("ERROR", "test_never"): 6,
        ("PASSED", "test_never"): 1,
        ("FAILED", "test_hanging"): 1,
        ("PASSED", "test_hanging"): 1,
        ("PASSED", "test_starting"): 2,
    }, done.stdout
    assert "test_hangs still ran after 2 s" in done.stdout
