"""What the tests of this folder share."""

import pytest
from twisted.logger import formatEvent

from tests.logs import looking


@pytest.fixture
def events():
    """The log events that come, in their order."""
    found = []
    with looking(found.append):
        yield found


@pytest.fixture
def logged():
    """The lines that were logged."""
    lines = []

    def see(event):
        lines.append(formatEvent(event))

    with looking(see):
        yield lines
