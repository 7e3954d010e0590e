"""A reactor to turn; nothing of a prompt may be logged meanwhile."""

import gc

import pytest
from twisted.logger import formatEvent

from tests.logs import looking

from .shown import CANARY


@pytest.fixture(scope="module", autouse=True)
def logged():
    """All that was logged, as text, with the errors that nobody handled."""
    found = []

    def see(event):
        failure = event.get("log_failure")
        more = failure.getTraceback() if failure is not None else ""
        found.append(f"{formatEvent(event)} {more}")

    with looking(see):
        yield found
        gc.collect()
    for wrong in (CANARY, "Traceback", "Unhandled"):
        assert not any(wrong in line for line in found), found
