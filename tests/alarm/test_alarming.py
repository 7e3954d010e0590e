"""The terminal's bell: it rings on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest

from tests.proxy.harness import environment, twistd

from .losing import lose

pytestmark = pytest.mark.slow


class OnTerminal:
    """A proxy whose output is a terminal."""

    def __init__(self, folder, server, table):
        file = folder / "config.toml"
        file.write_text(f'upstream = "{server.url}"\n[alarm]\n{table}\n')
        self._screen, terminal = pty.openpty()
        self._process = subprocess.Popen(
            twistd("--config", str(file), "--port", "0"),
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=environment(folder),
            cwd=folder,
        )
        os.close(terminal)
        found = re.search(rb"http://127.0.0.1:(\d+)", self.wait_for(b"Ready."))
        self.address = ("127.0.0.1", int(found[1]))

    def wait_for(self, mark):
        """What it writes up to ``mark``, and some more."""
        seen = b""
        while mark not in seen:
            seen += os.read(self._screen, 4096)
        return seen

    def stop(self):
        """What it writes until its end."""
        self._process.terminate()
        seen = b""
        try:
            while data := os.read(self._screen, 4096):
                seen += data
        except OSError:  # the terminal has gone with its last process
            pass
        self._process.wait()
        os.close(self._screen)
        return seen


@pytest.mark.parametrize(("table", "rings"), [("", 1), ("bell = false", 0)])
def test_an_alarm_rings_the_terminal(server, tmp_path, table, rings):
    """Once, with a line that says why; the line comes without the bell, too."""
    proxy = OnTerminal(tmp_path, server, table)
    try:
        label = lose(proxy)
        seen = proxy.wait_for(b"lost its prompt cache")
    finally:
        seen += proxy.stop()
    assert label.encode() in seen
    assert seen.count(b"\a") == rings


def test_a_pipe_gets_no_bell(alarmed):
    """Nor does a log file: they would keep it."""
    with alarmed("") as proxy:
        lose(proxy)
        proxy.wait_for("lost its prompt cache")
    assert "\a" not in proxy.output
