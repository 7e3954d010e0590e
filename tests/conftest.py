"""What all tests share: recorded traffic of real clients, if it is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

from cacheproxy.core.request import Request

settings.register_profile("cacheproxy", deadline=None, max_examples=100, database=None)
settings.load_profile("cacheproxy")

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "captures"


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of captures: CACHEPROXY_CAPTURES, or ``../shared/captures``; else skips."""
    folder = Path(os.environ.get("CACHEPROXY_CAPTURES") or _BESIDE)
    if not any(folder.glob("*.jsonl")):
        pytest.skip("no captures at hand")
    return folder


@pytest.fixture(scope="session")
def captured(captures: Path) -> dict[str, list[Request]]:
    """The POST requests of every capture, by the capture's name."""
    return {
        file.stem: [
            captured_request(line) for line in file.open(encoding="utf-8") if '"POST"' in line
        ]
        for file in sorted(captures.glob("*.jsonl"))
    }


def captured_request(line: str) -> Request:
    record = json.loads(line)
    return Request(
        method=record["method"],
        target=record["path"],
        headers=tuple(
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in dict(record["headers"]).items()
        ),
        body=record["body"].encode(),
    )
