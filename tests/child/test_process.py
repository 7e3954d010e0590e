"""The real service in a child process."""

import subprocess
import sys

import pytest

from cacheproxy.child.process import START_SECONDS, ChildProxy, ServerProcess
from cacheproxy.http_client import CommandError, NoAnswerError, Site
from tests.peer import NOBODY
from tests.proxy.harness import TIMEOUT, eventually, running, runs

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _from_nothing(monkeypatch):
    """A process of its own, as users have it; other tests fork theirs (tests/forking.py)."""
    monkeypatch.setattr(ServerProcess, "popen", subprocess.Popen)


def test_it_listens_on_loopback_with_its_own_settings_and_leaves_when_closed(monkeypatch):
    monkeypatch.setenv("CACHEPROXY_PORT", "nonsense")
    with ChildProxy(NOBODY) as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert Site(service.url).get("/v1/models").status == 502
    with pytest.raises(NoAnswerError):
        Site(service.url).get("/v1/models")


def test_what_twistd_says_against_it_is_the_error():
    with pytest.raises(CommandError, match=r"did not start: .*nonsense"):
        ChildProxy("nonsense")


def test_it_dies_with_its_parent():
    program = (
        "import time; from cacheproxy.child.process import ChildProxy;"
        f"service = ChildProxy({NOBODY!r}); print(service.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program]
    with running(command, stdout=subprocess.PIPE) as parent:  # it ends with SIGKILL
        pid = int(parent.stdout.readline())
    eventually(lambda: not runs(pid))


def test_a_busy_machine_has_minutes_to_start_it():
    """Tests wait for it, too."""
    assert START_SECONDS >= TIMEOUT
