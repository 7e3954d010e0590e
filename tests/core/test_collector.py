"""The garbage collector is paused while anybody wants it paused, and only then."""

import gc
import threading

import pytest

from cacheproxy.core.collector import Collector


def test_it_is_paused_for_the_time_of_the_work():
    """However it ends."""
    collector = Collector()
    assert gc.isenabled()
    with collector.paused():
        assert not gc.isenabled()
        with collector.paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collector.paused():
        1 / 0  # noqa: B018
    assert gc.isenabled()


def test_who_runs_without_it_goes_on_without_it():
    """It was the user's choice."""
    gc.disable()
    try:
        with Collector().paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_share_the_pause():
    """The last one ends it."""
    collector = Collector()
    started, leave = threading.Event(), threading.Event()

    def work():
        with collector.paused():
            started.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait(10)
    with collector.paused():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join(10)
    assert gc.isenabled()
