"""A proxy with two workers, and a way to choose the one that a connection comes to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.proxy.harness import Client, Proxy, answer_ok, eventually, sound_upstream

USAGE = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 99}}


@pytest.fixture
def upstream():
    with sound_upstream() as found:
        yield found


@pytest.fixture
def start(tmp_path, upstream):
    """Start a crew in front of ``upstream``, which answers with ``script`` from then on."""
    with contextlib.ExitStack() as stack:

        def start(*arguments, script=answer_ok, workers=2, **environ):
            more = ("--workers", str(workers), *arguments)
            proxy = Proxy(tmp_path, "--upstream", upstream.url, *more, **environ)
            crew = Crew(proxy)
            stack.callback(crew.leave_nothing)  # after the proxy has ended
            stack.enter_context(proxy)
            crew.find()
            upstream.reset(script)
            return crew

        yield start


def processes():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def parent(pid):
    """The parent of a process that is alive."""
    with contextlib.suppress(OSError):
        state, found, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(found) if state != "Z" else None
    return None


def alive(pid):
    """Whether there is a process, and it is no zombie."""
    return parent(pid) is not None


class Crew:
    """A proxy with workers. ``pids``: theirs, as the banner had them."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.pids = []
        self._all = set()

    def find(self):
        """Learn who the workers are, when it is ready."""
        found = re.search(r"workers +\d+: processes (.*)", self.proxy.output)
        self.pids = [int(pid) for pid in found[1].split(", ")]
        self._all.update(self.pids)

    @contextlib.contextmanager
    def through(self, pid):
        """Open a connection that the worker ``pid`` serves: the others are stopped meanwhile."""
        others = [each for each in self.workers() if each != pid]
        for other in others:
            os.kill(other, signal.SIGSTOP)
        try:
            with Client(self.proxy.address) as client:
                assert client.ask("/_cacheproxy/none", method=b"GET").answer().status == 404
                for other in others:
                    os.kill(other, signal.SIGCONT)
                others = []
                yield client
        finally:
            for other in others:
                os.kill(other, signal.SIGCONT)

    def page(self, path):
        """One of our own pages."""
        with Client(self.proxy.address) as client:
            answer = client.ask(path, method=b"GET").answer()
        assert answer.status == 200, answer
        return answer.body

    def health(self):
        return json.loads(self.page("/_cacheproxy/health"))

    def workers(self):
        """The processes that serve now."""
        found = [pid for pid in processes() if parent(pid) == self.proxy.pid]
        self._all |= set(found)
        return found

    def leave_nothing(self):
        """Its processes end with it."""
        eventually(lambda: not any(map(alive, self._all)))


def relayed(upstream, path):
    """The next request for ``path``: the health page asks the upstream as well."""
    while True:
        received = upstream.received()
        if received.line.split()[1] == path:
            return received


def chat(number, *users, system="be kind"):
    """The body of a turn of a conversation."""
    messages = [{"role": "system", "content": system}]
    messages += [{"role": "user", "content": text} for text in users]
    return json.dumps({"model": "m", "n": number, "messages": messages}).encode()
