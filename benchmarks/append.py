"""Whether a turn that only adds to the one before is ever called a break: it must not be.

    python benchmarks/append.py --server llama [--server gemma3 ...] [--only 'claude*']
    python benchmarks/append.py --server vllm --python .vllm/bin/python --block 32 --block 1024
    python benchmarks/append.py --server mlx --python .mlx/bin/python --longest 15000

Sends those recorded sessions (tests/captures) whose every turn begins with the whole turn before,
as chat completions or responses, through a proxy to a real server on a tiny model, and counts the
log's verdicts. The exit status is 1 if there was a BREAK.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

from cacheproxy_demo.client import DemoClient
from servers import Mlx, Vllm

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.testing import find_captures
from tests.llama.causes.reading import judged
from tests.llama.causes.servers import KINDS, Llama
from tests.llama.replay import PATHS, Session, body_for, headers_of, load_sessions, text_of

HISTORY = {"chat": "messages", "responses": "input"}
COLUMNS = ("server", "block", "sessions", "turns", "ok", "cold", "-", "BREAK", "which")
Json = dict[str, Any]


def appending(pattern: str, longest: int) -> Iterator[tuple[str, Session, str, list[Json]]]:
    """Yield the sessions whose turns only add, with a name, an API and their bodies."""
    for file in find_captures("*.jsonl", __file__):
        for session in load_sessions(file):
            name = f"{session.capture} #{session.turns[0].number}"
            for api in set(session.apis) & set(HISTORY):
                bodies = [body_for(api, turn.request) for turn in session.turns]
                adds = all(_adds(api, *two) for two in pairwise(bodies))
                if adds and fnmatch(name, pattern) and len(json.dumps(bodies[-1])) <= longest:
                    yield name, session, api, bodies


def _adds(api: str, one: Json, other: Json) -> bool:
    key = HISTORY[api]
    before, after = one[key], other[key]
    same = all(one.get(name) == other.get(name) for name in ("tools", "instructions", "model"))
    return same and len(after) > len(before) and after[: len(before)] == before


def measure(server: Any, found: list[Any]) -> tuple[Counter[str], list[str]]:
    """Send all sessions; return the verdicts, and where a break was."""
    verdicts: Counter[str] = Counter()
    broken = []
    with Proxy(server.url, "--poll", "10") as proxy:
        for name, session, api, bodies in found:
            before = len(judged(proxy.log()))
            for turn, body in zip(session.turns, bodies, strict=True):
                client = DemoClient(proxy.url, headers_of(turn.request))
                client.post(PATHS[api], {**body, "model": server.model})
            said = judged(proxy.log())
            deadline = time.monotonic() + 30
            while len(said) - before < len(bodies) and time.monotonic() < deadline:
                time.sleep(0.05)
                said = judged(proxy.log())
            verdicts.update(said[before:])
            broken += [
                f"{name}: turn {n + 1}" for n, one in enumerate(said[before:]) if one == "BREAK"
            ]
            print(f"{server.name} {name} {api}: {said[before:]}", file=sys.stderr, flush=True)
    return verdicts, broken


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--server", choices=[*KINDS, "mlx", "vllm"], action="append")
    options.add_argument("--python", type=Path, default=Path(sys.executable))
    options.add_argument("--block", type=int, action="append", help="of vLLM, in tokens")
    options.add_argument("--only", default="*", metavar="PATTERN")
    options.add_argument("--longest", type=int, default=1 << 20, help="characters of a last turn")
    given = options.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    bad = 0
    for name in given.server or ["llama"]:
        every = list(appending(given.only, given.longest))
        found = [one for one in every if name != "mlx" or one[2] == "chat"]
        text = text_of(session.turns[-1] for _, session, *_ in found)
        for block in (given.block or [128]) if name == "vllm" else [None]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                here = (Path(folder), "inline", text)
                if name in KINDS:
                    server: Any = Llama(name, *here, n_ctx=65_536)
                elif name == "mlx":
                    server = Mlx(given.python, *here)
                else:
                    server = Vllm(given.python, *here, block_size=block)
                with contextlib.closing(server):
                    verdicts, broken = measure(server, found)
            bad += len(broken)
            turns = sum(verdicts.values())
            counts = (len(found), turns, *(verdicts[one] for one in ("ok", "cold", "-", "BREAK")))
            row = (name, block or "", *counts, "; ".join(broken))
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
