"""Failures in the log without what their exceptions say."""

from __future__ import annotations

import io

import pytest
from twisted.logger import LogPublisher, textFileLogObserver
from twisted.python.failure import Failure

from cacheproxy.observe.log_redaction import BareFailures, bare

SECRET = "kanarienvogel"


def failed():
    """A failure that says the secret, as does what caused it."""
    try:
        try:
            int(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error
    except KeyError:
        return Failure()


@pytest.mark.parametrize("detail", ["brief", "default", "verbose"])
def test_the_class_and_the_place_stay(detail):
    """They are what a bug is found by."""
    failure = failed()
    assert SECRET in failure.getTraceback(detail=detail)
    text = bare(failure).getTraceback(detail=detail)
    assert SECRET not in text
    assert SECRET not in bare(Failure(ValueError(SECRET))).getTraceback(detail=detail)
    assert "KeyError" in text
    assert "test_log_redaction.py" in text


def test_what_the_system_says_stays():
    """It helps, and is not ours; the name of the file is."""
    text = bare(Failure(OSError(2, "No such file or directory", SECRET))).getTraceback()
    assert "FileNotFoundError: No such file or directory" in text
    assert SECRET not in text


@pytest.mark.parametrize("key", ["log_failure", "failure"])
def test_observers_that_come_after_it_see_bare_failures(key):
    """Both halves of Twisted, and an event that is seen twice."""
    file = io.StringIO()
    publisher = LogPublisher(BareFailures(), BareFailures(), textFileLogObserver(file))
    event = {"log_format": "it failed", "log_time": 0.0, key: failed()}
    publisher(event)
    assert SECRET not in event[key].getTraceback()
    assert SECRET not in file.getvalue()
    assert "it failed" in file.getvalue()


def test_events_without_a_failure_are_left_alone():
    """Most of them."""
    event = {"log_format": SECRET, "failure": SECRET}
    BareFailures()(event)
    assert event == {"log_format": SECRET, "failure": SECRET}
