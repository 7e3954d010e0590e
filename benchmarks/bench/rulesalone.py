"""What the rules cost without a proxy around them, in the tree that is on the path.

python -m bench.rulesalone FILE...      one line of JSON: microseconds by what and by file
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import cacheproxy_claude_code
import cacheproxy_openclaw
import msgspec

from bench.bodies import CHAT
from bench.rules import BAR, FIND, SCAN
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import settled
from cacheproxy.core.rules.fold import normalize

_ABSENT = b"x-anthropic-billing-footer"
_SECONDS = 0.2


def shipped(package: Any) -> list[Any]:
    """The rules that are on as shipped; earlier trees have a hook for the client, or none."""
    before = getattr(package, "cacheproxy_client", lambda: None)
    client = getattr(package, "CLIENT", None) or before()
    more = {"client": client} if client else {}
    if "own" in signature(settled).parameters:  # trees before functions were marked as quick
        more["own"] = True
    return [settled(rule, **more) for rule in package.RULES if rule.default]


CLAUDE, OPENCLAW = shipped(cacheproxy_claude_code), shipped(cacheproxy_openclaw)


def main(files: Sequence[str]) -> None:
    """Measure the tree on the path."""
    found: dict[str, dict[str, float]] = {}
    for file in map(Path, files):
        body = file.read_bytes()
        path = "/v1/chat/completions" if file.name == CHAT else "/v1/messages"
        scan = msgspec.json.Decoder(msgspec.Raw)
        work = {
            FIND: lambda body=body: body.find(_ABSENT),
            SCAN: lambda body=body, scan=scan: scan.decode(body),
            "": fold([*CLAUDE, *OPENCLAW], path, body),
            ": claude-code": fold(CLAUDE, path, body),
            ": openclaw": fold(OPENCLAW, path, body),
        }
        times = medians(work)
        times[BAR] = 3 * times[FIND] + times[SCAN]
        for what, seconds in times.items():
            found.setdefault(what, {})[file.name] = seconds * 1e6
    print(json.dumps(found))


def fold(rules: Sequence[Any], path: str, body: bytes) -> Callable[[], object]:
    """Take the body through ``rules``."""
    return lambda: normalize(Request("POST", path, (), body), rules)


def medians(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each, in turn."""
    times: dict[str, list[float]] = {what: [] for what in work}
    until = time.monotonic() + _SECONDS * len(work)
    while time.monotonic() < until:
        for what, run in work.items():
            begun = time.perf_counter()
            run()
            times[what].append(time.perf_counter() - begun)
    return {what: statistics.median(taken) for what, taken in times.items()}


if __name__ == "__main__":
    main(sys.argv[1:])
