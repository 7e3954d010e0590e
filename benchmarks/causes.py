"""Which cause of a break is named, for causes that were seeded, on real servers.

    python benchmarks/causes.py --server llama [--server qwen35 ...] [--only NAME]
    python benchmarks/causes.py --server mlx --python .mlx/bin/python
    python benchmarks/causes.py --server vllm --python .vllm/bin/python      (12 starts of a minute)
    python benchmarks/causes.py --server vllm --upstream URL                 (one that runs already)

Prints a Markdown table: what is to be named, and what the log line, ``diagnose`` and
``diagnose --from`` say. The causes are those of tests/llama/causes. With ``--upstream`` only those
are seeded that need nothing special of the server; its template should take system messages where
they stand.
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

COLUMNS = ("cause", "server", "to be named", "log", "diagnose", "diagnose --from", "right")


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


def started(given: Any, name: str, cause: Cause, folder: Path) -> Any:
    """Start a server that ``cause`` can be seeded at."""
    setting = cause.setting
    if given.upstream:
        return Running(name, given.upstream, given.model)
    if name in KINDS:
        return Llama(name, folder, setting.template, **dict(setting.server))
    kind = {"mlx": Mlx, "vllm": Vllm}[name]
    return kind(given.python, folder, setting.template, **dict(setting.server))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path:
        yield Path(path)


def rows(given: Any, name: str, causes: list[Cause]) -> Iterator[tuple[str, ...]]:
    """Seed causes that need the same servers; those that need the same proxy share it, too."""
    with contextlib.ExitStack() as stack:
        servers = []
        for _ in range(causes[0].setting.servers):
            folder = stack.enter_context(scratch())
            servers.append(started(given, name, causes[0], folder))
            stack.callback(servers[-1].close)
        for options, group in groupby(causes, key=lambda cause: cause.setting.options):
            with scratch() as folder, Stage(folder, *servers, options=options) as stage:
                for cause in group:
                    yield judged(stage, cause, loud=given.verbose)


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


def alike(causes: list[Cause]) -> list[list[Cause]]:
    """Put together what needs the same servers, and among these what needs the same proxy."""

    def servers(cause: Cause) -> Any:
        return (cause.setting.template, cause.setting.server, cause.setting.servers)

    found: dict[Any, list[Cause]] = {}
    for cause in causes:
        found.setdefault(servers(cause), []).append(cause)
    return [sorted(group, key=lambda cause: cause.setting.options) for group in found.values()]


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
        for causes in alike(wanted):
            for row in rows(given, name, causes):
                wrong += row[-1] != "yes"
                print(f"| {' | '.join(row)} |", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
