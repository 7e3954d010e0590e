"""What differs between two runs of the same code, taken out: times, speeds, ports, random marks."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

_TIMES = frozenset(
    {"wall", "first_byte", "seconds", "first_seconds", "total_seconds", "first_worst"}
    | {"first_median", "added", "series", "probe"}
)
"""Members of our pages that say how long something took, or that end with the minute; and the
random mark by which a proxy knows itself."""
_CAPTURED_TIMES = frozenset({"t", "sent_after", "head_after", "first_byte", "seconds"})
_EPOCH = 1_500_000_000
"""A number above it is a moment, in seconds or milliseconds since the epoch."""
_VIA = re.compile(r"cacheproxy-[0-9a-f]{8}\b")
_DURATION = re.compile(r" *\b\d+(?:\.\d+)? ?(?:ms|s|seconds?|µs)\b")
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:[+-]\d{4}|Z)?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"\d{2}:\d{2}:\d{2}")
_CREATED = re.compile(rb'("created(?:_at)?": ?)\d{10}\b')
_TIMED = re.compile(r"_seconds|_per_second|^process_|^python_|_created|_connections|_open_requests")


def text(value: str) -> str:
    """Return ``value`` without the proxy's own random mark."""
    return _VIA.sub("cacheproxy-MARK", value)


def day(value: str) -> str:
    """Return ``value`` without dates: a template may be asked for today's."""
    return _DAY.sub("DAY", _STAMP.sub("STAMP", value))


def log(value: str) -> list[str]:
    """Return the lines of a log without times and durations, sorted: some come when they can."""
    return sorted(_CLOCK.sub("CLOCK", _timeless(line)) for line in value.splitlines())


def values(value: Any) -> Any:
    """Return a page's JSON value without times."""
    if isinstance(value, dict):
        return {name: values(each) for name, each in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [values(each) for each in value]
    if isinstance(value, int | float) and value > _EPOCH:
        return "MOMENT"
    return _timeless(value) if isinstance(value, str) else value


def captured(line: dict[str, Any]) -> dict[str, Any]:
    """Return a capture's line without times."""
    return {name: each for name, each in line.items() if name not in _CAPTURED_TIMES}


def _timeless(value: str) -> str:
    return _DURATION.sub(" N s", _STAMP.sub("STAMP", value))


def answer(body: bytes) -> bytes:
    """Return an answer's ``body`` without the moment at which it was made."""
    return _CREATED.sub(rb"\1MOMENT", body)


def metrics(page: str) -> list[str]:
    """Return the lines of a metrics page without those that count time."""
    return [line for line in page.splitlines() if not _TIMED.search(line.partition(" ")[0])]


def kept(body: bytes, folder: Path) -> str:
    """Return the length and hash of ``body``; its bytes are in the file of that name."""
    name = f"{len(body)}-{hashlib.sha256(body).hexdigest()[:16]}"
    (folder / name).write_bytes(body)
    return name
