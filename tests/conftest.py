"""What all tests share: recorded traffic of real clients, and patience with busy machines."""

from __future__ import annotations

import contextlib
import lzma
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import capture_name, find_captures, load_capture

settings.register_profile("cacheproxy", deadline=None, max_examples=100, database=None)
settings.load_profile("cacheproxy")

LONGEST = 900
"""Seconds that a test may take, and its fixtures before and after it. What takes longer hangs: the
longest takes half a minute on two idle cores."""

STARTS = 3
"""How often a shared fixture may fail before the rest of its tests fail with it."""


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


def pytest_configure() -> None:
    """Take signals as in the foreground.

    ``nohup``, and a shell that puts us into the background, let us ignore some, and the programs
    that we start would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # what we start does not inherit a function


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
