"""cacheproxy itself as a peer: from this tree or another, with options or without."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.peer import Peer, Place, Running

REPOSITORY = Path(__file__).resolve().parents[2]
_RUN = "import sys; from twisted.scripts.twistd import run; sys.exit(run())"


class Ours(Peer):
    """``twistd -n cacheproxy`` as shipped: rules of both client packages, verdicts, log, totals.

    ``tree`` is the checkout whose code runs, in the interpreter that runs the benchmark, which must
    have the packages installed (their entry points are read there). ``{folder}`` in ``arguments``
    stands for a folder of this run.
    """

    tree: Path

    def __init__(self, name: str, tree: Path = REPOSITORY, arguments: tuple[str, ...] = ()) -> None:
        def command(place: Place) -> list[str]:
            folder = place.folder / name
            folder.mkdir(exist_ok=True)
            return [
                *("env", f"--chdir={folder}", *_without_settings()),
                *(f"PYTHONPATH={python_path(tree)}", f"HOME={folder}"),
                *("PYTHONIOENCODING=utf-8", str(place.python), "-c", _RUN, "-n", "--pidfile="),
                *("cacheproxy", "--config", os.devnull, "--state-dir", str(folder / "state")),
                *("--port", str(place.port), "--upstream", f"http://127.0.0.1:{place.upstream}"),
                *(argument.replace("{folder}", str(folder)) for argument in arguments),
            ]

        def lack() -> str:
            return "" if (tree / "cacheproxy").is_dir() else f"there is no cacheproxy in {tree}"

        super().__init__(name, True, command, lack)
        object.__setattr__(self, "tree", tree)  # a Peer is frozen

    def start(
        self, port: int, upstream: int, core: int | None, folder: Path, python: Path
    ) -> Running:
        """Also wait until it has looked at the upstream. Its log is ``folder``/NAME.log."""
        running = super().start(port, upstream, core, folder, python)
        log = folder / f"{self.name}.log"
        until = time.monotonic() + 10
        while "Ready." not in log.read_text(errors="replace") and time.monotonic() < until:
            time.sleep(0.05)
        return running


def python_path(tree: Path) -> str:
    """Where the packages of ``tree`` are imported from."""
    return os.pathsep.join(map(str, (tree, *sorted((tree / "clients").iterdir()))))


def _without_settings() -> list[str]:
    """What takes the user's settings and proxies out of the environment."""
    return [
        part
        for name in os.environ
        if name.startswith("CACHEPROXY_") or name.lower().endswith("_proxy")
        for part in ("-u", name)
    ]
