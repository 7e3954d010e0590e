"""What a test needs of the system; without it the test is skipped, and says how to get it."""

from __future__ import annotations

import shutil

import pytest
from cacheproxy_demo.embedded.child import import_library

PACKAGES = {
    "chromium": "chromium",
    "node": "nodejs",
    "npm": "npm",
    "fish": "fish",
    "haproxy": "haproxy",
    "dbus-daemon": "dbus",
    "promtool": "prometheus",
}
"""Of a program: its package in Debian and Ubuntu."""


def llama() -> None:
    """Need the embedded llama.cpp, and with it the library libgomp1."""
    try:
        import_library()
    except ImportError as missing:
        pytest.skip(str(missing))


def program(name: str, *others: str) -> str:
    """Need a program called ``name`` or one of the ``others``; return where it is."""
    found = next(filter(None, map(shutil.which, (name, *others))), None)
    if found is None:
        pytest.skip(f"{name} is not installed: apt install {PACKAGES[name]}")
    return found
