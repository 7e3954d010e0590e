"""A reactor to turn, and whoever asks there; nothing of a prompt may be logged meanwhile."""

from __future__ import annotations

import gc

import pytest
from twisted.logger import formatEvent

from tests.logs import looking

from .pages import CANARY, LLAMA, turn
from .turned import HandTurned, proving_at


@pytest.fixture
def reactor():
    found = HandTurned()
    yield found
    assert not found.clock.getDelayedCalls()
    found.close()


@pytest.fixture
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
    assert not any(CANARY in line or "Traceback" in line for line in found), found
    assert not any("Unhandled" in line for line in found), found


@pytest.fixture
def ask(reactor, upstream, logged):
    """Ask a server with these pages for a proof."""

    def ask(pages, of=None, page=LLAMA, **profile):
        upstream.reset(pages)
        proving = proving_at(reactor, upstream.url, page=page, **profile)
        return reactor.run(proving.prove(of or turn()))

    return ask
