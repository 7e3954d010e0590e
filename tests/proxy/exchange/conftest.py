"""What tests share: a reactor with threads, and code of others that hangs until it is let go."""

import threading

import pytest

from cacheproxy.core.document.edits import Edit
from tests.proxy.harness import TIMEOUT
from tests.turning import TurningReactor


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


@pytest.fixture
def reactor():
    """One that a test turns, and that has threads."""
    reactor = TurningReactor()
    reactor.pool.start()
    yield reactor
    reactor.pool.stop()
