"""What the tests of this folder share."""

from __future__ import annotations

import pytest
from twisted.logger import LogLevel, formatEvent, globalLogPublisher

from .builders import store_in


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    store = store_in(tmp_path / "state")
    yield store
    store.connection.close()


@pytest.fixture
def log():
    """The lines of the log, warnings and worse."""
    lines = []

    def observe(event):
        if event["log_level"] >= LogLevel.warn:
            lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    yield lines
    globalLogPublisher.removeObserver(observe)
