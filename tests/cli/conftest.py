"""What the tests of commands share: none of the settings of who runs them."""

import os
from functools import cache

import pytest

from cacheproxy.plugin import loading
from cacheproxy.plugin.packages import Packages

OTHERS = ("CLAUDE_", "ANTHROPIC_", "XDG_", "APPDATA", "LOCALAPPDATA")
_load, _entry_points = Packages.load, loading.entry_points


@cache
def _installed():
    return _load(Packages())


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
    """Load what is installed once: most of what a command takes. Not where that is another's."""

    def load(self, block=(), files=()):
        if block or loading.entry_points is not _entry_points:
            return _load(self, block, files)
        return _installed().with_files(files)

    monkeypatch.setattr(Packages, "load", load)
