"""The real service in a child process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproxy.demo import proxy
from cacheproxy.demo.client import Client
from cacheproxy.demo.errors import DemoError
from cacheproxy.demo.proxy import ProxyService
from tests.proxy.harness import eventually, running


def test_it_listens_on_loopback_and_leaves_when_closed():
    with ProxyService("http://127.0.0.1:9") as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert Client(service.url).models() == []  # its upstream is not there: 502
    with pytest.raises(DemoError):
        Client(service.url).models()


def test_the_users_own_settings_are_left_aside(monkeypatch):
    monkeypatch.setenv("CACHEPROXY_PORT", "nonsense")
    with ProxyService("http://127.0.0.1:9"):
        pass


def test_what_twistd_says_against_it_is_the_error():
    with pytest.raises(DemoError, match=r"did not start: .*nonsense"):
        ProxyService("nonsense")


def test_it_dies_with_its_parent():
    program = (
        "import time; from cacheproxy.demo.proxy import ProxyService;"
        "service = ProxyService('http://127.0.0.1:9');"
        "print(service._process.pid, service.url, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program]
    with running(command, stdout=subprocess.PIPE, text=True) as parent:  # it ends with SIGKILL
        pid, url = parent.stdout.readline().split()
    eventually(lambda: not runs(int(pid)))
    with pytest.raises(DemoError):
        Client(url).models()


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # where nobody reaps orphans, as in many containers, a zombie stays behind
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())


def test_a_missing_client_package_is_one_line_with_the_command(monkeypatch):
    monkeypatch.setattr(proxy, "PLUGIN", "cacheproxy-of-nobody")
    with pytest.raises(DemoError, match="pip install cacheproxy-of-nobody"):
        proxy.require_plugin()
