"""What all tests share: recorded traffic, what is slow, and patience with busy machines."""

from __future__ import annotations

import contextlib
import gc
import lzma
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import LogLevel, formatEvent

from cacheproxy.child.process import ServerProcess
from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import capture_name, find_captures, load_capture
from tests import forking
from tests.logs import looking

gc.disable()  # a quarter of the time that collecting the tests took; see pytest_collection_finish

settings.register_profile(
    "cacheproxy",
    deadline=None,  # of a single example: machines are busy
    max_examples=50,  # fuzz/ has more
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("cacheproxy"), max_examples=5)
settings.load_profile("cacheproxy")

HERE = Path(__file__).parent
SLOW_FOLDERS = {"browser", "doctor", "llama", "models", "sdk"}
"""Folders whose tests need a real server, a browser or a foreign program."""
SLOW_FIXTURES = {"_upstream", "_proxy", "captured", "captures"}
"""Fixtures that start a process, or read all recorded traffic."""
SAYS_SLOW = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.slow\b", re.MULTILINE)
"""How a module says that all its tests are slow."""
PROCESS_EVENTS = {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"}
"""What Python reports to its audit hooks when a process begins (Audit events table)."""

LONGEST = 900
"""Seconds that a test may take, and its fixtures before and after it. What takes longer hangs: the
longest takes half a minute on two idle cores."""

STARTS = 3
"""How often a shared fixture may fail before the rest of its tests fail with it."""


OF_THE_USER = re.compile(r"CACHEPROXY_|OTEL_|(COLUMNS|LINES|FORCE_COLOR|NO_COLOR)$")
"""Variables that are not for the tests: settings, and what their terminal is like."""


@pytest.fixture(scope="session", autouse=True)
def _nobodys_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads the settings of who runs it, or adds to their lifetime totals."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(OF_THE_USER.match, tuple(os.environ)):
            patch.delenv(name)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(scope="session", autouse=True)
def _forked() -> Iterator[None]:
    """Children do not start from nothing, but for the tests of how they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerProcess, "popen", staticmethod(forking.popen))
        yield


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every capture, unpacked, as ``--capture`` would have written it."""
    folder = tmp_path_factory.mktemp("captures")
    for file in find_captures("*.jsonl", __file__):
        unpacked = lzma.decompress(file.read_bytes())
        folder.joinpath(f"{capture_name(file)}.jsonl").write_bytes(unpacked)
    return folder


@pytest.fixture(scope="session")
def captured() -> dict[str, list[Request]]:
    """The POST requests of every capture, by the capture's name."""
    return {
        capture_name(file): [one for one in load_capture(file) if one.method == "POST"]
        for file in find_captures("*.jsonl", __file__)
    }


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The lines of the log, warnings and worse."""
    lines = []

    def observe(event: dict[str, Any]) -> None:
        if event["log_level"] >= LogLevel.warn:
            lines.append(formatEvent(event))

    with looking(observe):
        yield lines


def pytest_configure(config: pytest.Config) -> None:
    """Take few examples for the quick tests, files in our order, signals as in the foreground.

    ``nohup``, and a shell that puts us into the background, let us ignore some, and the programs
    that we start would inherit that.
    """
    if _is_quick(config):
        settings.load_profile("quick")
    config.option.loadscopereorder = False  # pytest-xdist would begin with the most tests
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # what we start does not inherit a function


def _is_quick(config: pytest.Config) -> bool:
    return "not slow" in config.getoption("markexpr")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing that is all slow for the quick tests: the SDKs alone take seconds."""
    if not _is_quick(config):
        return None
    name = collection_path.name
    is_slow = name in SLOW_FOLDERS or name == "test_sdk.py"
    if not is_slow and name.startswith("test_") and collection_path.suffix == ".py":
        is_slow = SAYS_SLOW.search(collection_path.read_text("utf-8")) is not None
    return True if is_slow else None


@cache
def _is_slow(path: Path) -> bool:
    folders = path.relative_to(HERE.parent).parts[1:-1]
    return bool(SLOW_FOLDERS.intersection(folders)) or path.name == "test_sdk.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its folder and by its fixtures; slow modules come first."""
    for item in items:
        if (
            _is_slow(item.path)
            or SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ()))
            or item.get_closest_marker("nightly")
        ):
            item.add_marker("slow")
    # Workers take files in this order: a long one at the end would leave the others without work.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from what stays: each of its rounds took a third of a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


_quick_now: list[str] = []


def _watch_processes(event: str, _: object) -> None:
    if _quick_now and event in PROCESS_EVENTS:
        raise RuntimeError(f"{_quick_now[0]} starts a process: mark it slow")


sys.addaudithook(_watch_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that is not marked as slow starts no process."""
    _quick_now[:] = [] if item.get_closest_marker("slow") else [item.nodeid]
    try:
        return (yield)
    finally:
        _quick_now.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """No fixture waits for ever: it fails where it waits."""
    with _ending(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """No test waits for ever: it fails where it waits."""
    with _ending(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Nor does what comes after a test."""
    with _ending(item):
        return (yield)


@contextlib.contextmanager
def _ending(item: pytest.Item) -> Iterator[None]:
    def end(*_: object) -> None:
        pytest.fail(f"{item.nodeid} still ran after {LONGEST} s")

    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, LONGEST, LONGEST)  # again: it may wait once more
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_failed: Counter[int] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Iterator[None]:
    """One slow start fails one test: for the next test of its module it is tried again."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception):
        _failed[id(fixturedef)] += 1
        if _failed[id(fixturedef)] < STARTS:
            fixturedef.finish(request)  # else pytest fails all tests that share it
        raise
