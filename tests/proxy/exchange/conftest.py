"""What tests of the code of others share: a function that hangs until it is let go."""

from __future__ import annotations

import threading

import pytest

from cacheproxy.core.document.edits import Edit
from tests.proxy.harness import TIMEOUT


class Hang:
    """A function of a plugin; ``entered`` counts its calls, ``gate`` lets them go."""

    def __init__(self, answer=()):
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.answer = answer

    def __call__(self, *_):
        self.entered.release()
        assert self.gate.wait(TIMEOUT)
        return self.answer


@pytest.fixture
def hang():
    """One whose edits come too late."""
    hang = Hang([Edit("/system", "never", "late")])
    yield hang
    hang.gate.set()
