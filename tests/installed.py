"""The installed client packages and tools, loaded once: it takes half a second."""

from functools import cache

import pytest

from cacheproxy.plugin import loading
from cacheproxy.plugin.packages import Packages

_load, _entry_points = Packages.load, loading.entry_points


@cache
def packages() -> Packages:
    """What ``Packages().load()`` returns."""
    return _load(Packages())


def load_once(patch: pytest.MonkeyPatch) -> None:
    """Let the code load these, too. Not where a test blocks some, or has its own entry points."""

    def load(self, block=(), files=()):
        if block or loading.entry_points is not _entry_points:
            return _load(self, block, files)
        return packages().with_files(files)

    patch.setattr(Packages, "load", load)
