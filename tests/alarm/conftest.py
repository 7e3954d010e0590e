"""A proxy before a server that forgets everything, with alarms as a test has them."""

from __future__ import annotations

import signal

import pytest

from tests.proxy.harness import Proxy, Upstream

from .losing import forgetful


@pytest.fixture(scope="module")
def server():
    """A model server that forgets everything."""
    found = Upstream()
    found.reset(forgetful)
    yield found
    found.close()


@pytest.fixture(scope="module")
def alarmed(server, tmp_path_factory):
    """Start a proxy with an ``[alarm]`` table; ``rewrite`` gives it another."""

    class Alarmed(Proxy):
        def __init__(self, table, **environ):
            folder = tmp_path_factory.mktemp("alarmed")
            self._file = folder / "config.toml"
            self._write(table)
            super().__init__(folder, "--config", str(self._file), **environ)

        def rewrite(self, table):
            self._write(table)
            mark = self.mark()
            self.signal(signal.SIGHUP)
            return self.wait_for("reloaded", mark)

        def _write(self, table):
            self._file.write_text(f'upstream = "{server.url}"\n[alarm]\n{table}\n')

    return Alarmed
