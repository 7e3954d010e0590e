"""What the tests of commands share: none of the settings of who runs them."""

import os

import pytest

from tests import installed

OTHERS = ("CLAUDE_", "ANTHROPIC_", "XDG_", "APPDATA", "LOCALAPPDATA")


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A user without settings; the config file, if a test writes one, is ``default_file()``."""
    for name in os.environ:
        if name.startswith(OTHERS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch):
    """Load what is installed once: most of what a command takes."""
    installed.load_once(monkeypatch)
