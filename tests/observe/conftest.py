"""What the tests of this folder share."""

from __future__ import annotations

import pytest
from twisted.logger import formatEvent, globalLogPublisher


@pytest.fixture
def events():
    """The log events that come, in their order."""
    found = []
    globalLogPublisher.addObserver(found.append)
    yield found
    globalLogPublisher.removeObserver(found.append)


@pytest.fixture
def logged():
    """The lines that were logged."""
    lines = []

    def see(event):
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(see)
    yield lines
    globalLogPublisher.removeObserver(see)
