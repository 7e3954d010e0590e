"""What the tests themselves do on busy machines, in the background, and when something hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).with_name("conftest.py")


@pytest.fixture
def tests(tmp_path):
    """Run tests of which ``source`` is the text, beside our conftest.py; return what is said."""

    def run(source, longest=None, **options):
        conftest = CONFTEST.read_text(encoding="utf-8")
        if longest is not None:
            conftest, changed = re.subn(r"(?m)^LONGEST = .*", f"LONGEST = {longest}", conftest)
            assert changed == 1
        (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
        (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_it.py"]
        environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,
        )
        return done.stdout

    return run


SLOW = """
    import pytest

    started = []

    @pytest.fixture(scope="module")
    def server():
        started.append(1)
        assert len(started) > {failures}, "too slow"
        yield
        print("ended", len(started))

    @pytest.mark.parametrize("number", range(6))
    def test_it(server, number):
        pass
"""


def test_one_slow_start_fails_one_test(tests):
    """The next test of the module has another try."""
    assert "5 passed, 1 error" in tests(SLOW.format(failures=1))


def test_what_never_starts_is_tried_a_few_times(tests):
    """Else a run where nothing starts would never end."""
    said = tests(SLOW.format(failures=100) + "\n    def test_count(): assert len(started) == 3\n")
    assert "1 passed, 6 errors" in said


def test_a_test_that_hangs_fails_where_it_hangs(tests):
    """The others go on."""
    source = """
        import threading

        def test_hangs():
            threading.Event().wait()

        def test_goes_on():
            pass
    """
    said = tests(source, longest=0.5)
    assert "1 failed, 1 passed" in said
    assert "test_hangs still ran after 0.5 s" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_tests_start_does_not_ignore_a_signal_that_they_ignore(tests, number):
    """As it would in the background of a shell, or under nohup."""
    source = f"""
        import signal, subprocess, sys, pytest

        PROGRAM = "import signal; print(signal.getsignal({int(number)}) is signal.SIG_IGN)"

        @pytest.mark.slow
        def test_it():
            said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True)
            assert said.stdout == b"False\\n"
    """
    ignore = signal.signal(number, signal.SIG_IGN)
    try:
        said = tests(source)
    finally:
        signal.signal(number, ignore)
    assert "1 passed" in said
