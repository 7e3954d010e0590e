"""Which cause of a break is named, for causes that were seeded, on real servers.

    python benchmarks/causes.py --server llama [--server qwen35 ...] [--only NAME]
    python benchmarks/causes.py --server mlx --python .mlx/bin/python
    python benchmarks/causes.py --server vllm --python .vllm/bin/python      (12 starts of a minute)
    python benchmarks/causes.py --server vllm --upstream URL                 (one that runs already)

Prints a Markdown table: what was true, and what the log line, ``diagnose`` and ``diagnose --from``
say. The causes are those of tests/llama/causes. With ``--upstream`` only those are seeded that
need nothing special of the server; its template should take system messages where they stand.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import traceback
import urllib.request
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from servers import Mlx, Vllm

from tests.llama.causes.causes import CAUSES, PLAIN, Cause, right
from tests.llama.causes.servers import KINDS, Llama
from tests.llama.causes.stage import Stage

COLUMNS = ("cause", "server", "true", "log", "diagnose", "diagnose --from", "right")


class Running:
    """A server that somebody else has started."""

    def __init__(self, name: str, url: str, model: str) -> None:
        self.name = name
        self.kind = {"vllm": "blocks", **KINDS}.get(name, "rewindable")
        self.url = url.rstrip("/")
        self.model = model

    def restart(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Leave it running."""


@contextlib.contextmanager
def staged(given: Any, name: str, cause: Cause) -> Iterator[Stage]:
    """Start what ``cause`` needs."""
    setting = cause.setting
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(path)
        servers: list[Any] = []
        for number in range(setting.servers):
            here = folder / str(number)
            here.mkdir()
            settings = dict(setting.server)
            if given.upstream:
                servers.append(Running(name, given.upstream, given.model))
            elif name in KINDS:
                servers.append(Llama(name, here, setting.template, **settings))
            else:
                kind = {"mlx": Mlx, "vllm": Vllm}[name]
                servers.append(kind(given.python, here, setting.template, **settings))
            stack.callback(servers[-1].close)
        yield stack.enter_context(Stage(folder, *servers, options=setting.options))


def judged(stage: Stage, cause: Cause, *, loud: bool) -> tuple[str, ...]:
    """Seed one cause; return its row."""
    server = stage.server
    truth = cause.truth(server.name, server.kind)
    wanted = " or ".join(map(str, truth))
    try:
        held = cause.hold(stage)
        found = held.read()
    except Exception as error:
        traceback.print_exc()
        return (
            cause.title,
            server.name,
            wanted,
            f"{type(error).__name__}",
            "",
            "",
            "could not be seeded",
        )
    if loud:
        figures = [(usage.prompt, usage.reused) for usage in held.usages]
        print(f"{cause.name}: {figures}\n{found.line}\n", file=sys.stderr, flush=True)
    is_right = right(truth, found)
    named = (found.live, found.diagnosed, found.captured)
    return (cause.title, server.name, wanted, *map(str, named), "yes" if is_right else "**no**")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--server", choices=[*KINDS, "mlx", "vllm"], action="append")
    options.add_argument("--python", type=Path, default=Path(sys.executable))
    options.add_argument("--upstream")
    options.add_argument("--model", default="default_model", help="of --upstream")
    options.add_argument("--only", action="append", metavar="NAME")
    options.add_argument("--verbose", action="store_true", help="print each log line")
    given = options.parse_args()
    if given.upstream and given.model == "default_model":
        with urllib.request.urlopen(f"{given.upstream}/v1/models", timeout=60) as answer:
            given.model = json.load(answer)["data"][0]["id"]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    wrong = 0
    for name in given.server or ["llama"]:
        kind = {"vllm": "blocks", **KINDS}.get(name, "rewindable")
        wanted = [
            cause
            for cause in CAUSES.values()
            if cause.applies(name, kind) and (not given.only or cause.name in given.only)
            if not given.upstream or cause.setting == PLAIN
        ]
        # those that need the same share a server and a proxy, as conversations do
        order = list(dict.fromkeys(cause.setting for cause in wanted))
        wanted.sort(key=lambda cause: order.index(cause.setting))
        for _, causes in groupby(wanted, key=lambda cause: cause.setting):
            group = list(causes)
            with staged(given, name, group[0]) as stage:
                for cause in group:
                    row = judged(stage, cause, loud=given.verbose)
                    wrong += row[-1] != "yes"
                    print(f"| {' | '.join(row)} |", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
