"""What all tests share: recorded traffic of real clients."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from hypothesis import settings

from cacheproxy.core.request import Request
from cacheproxy.testing import capture_name, find_captures, load_capture

settings.register_profile("cacheproxy", deadline=None, max_examples=100, database=None)
settings.load_profile("cacheproxy")


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every capture, unpacked, as ``--capture`` would have written it."""
    folder = tmp_path_factory.mktemp("captures")
    for file in find_captures("*.jsonl", __file__):
        unpacked = lzma.decompress(file.read_bytes())
        folder.joinpath(f"{capture_name(file)}.jsonl").write_bytes(unpacked)
    return folder


@pytest.fixture(scope="session")
def captured() -> dict[str, list[Request]]:
    """The POST requests of every capture, by the capture's name."""
    return {
        capture_name(file): [one for one in load_capture(file) if one.method == "POST"]
        for file in find_captures("*.jsonl", __file__)
    }
