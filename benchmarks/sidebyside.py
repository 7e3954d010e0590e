"""cacheproxy beside other proxies: what each adds to a request, in turn, in one run.

    python benchmarks/sidebyside.py [--quick] [--only GROUP,...] [--peers NAME,...] [--json FILE]
    python benchmarks/sidebyside.py --tree before=/path/to/checkout    that one's code as well
    python benchmarks/sidebyside.py --variant 'capture=--capture {folder}'   with other options
    python benchmarks/sidebyside.py --setup      installs the peers that packages are needed for

Groups: bytes, ttfb (with cpu), rps, streams, memory, growth, rules. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import check, memory, process, rules, streaming, wrk
from bench.bodies import Bodies
from bench.figures import Figures
from bench.goals import GOALS
from bench.ours import Ours
from bench.peer import PEERS, Peer
from bench.plan import FULL, QUICK
from bench.requests import Requests
from bench.run import Run
from bench.setup import setup
from bench.table import goals_table, group_table
from bench.targets import Target, running, upstream
from bench.versions import versions

GROUPS = ("bytes", "ttfb", "rps", "streams", "memory", "growth", "rules")


def main() -> int:
    options = parse()
    if options.setup:
        print(*setup(), sep="\n")
        return 0
    figures = Figures()
    peers = present(chosen(options), figures)
    _, core = process.cores()
    if core is not None:
        os.sched_setaffinity(0, {core})
    others = process.Others()
    with tempfile.TemporaryDirectory() as name, upstream() as direct:
        plan = QUICK if options.quick else FULL
        run = Run(Bodies(), plan, figures, Path(name))
        measure(options.only, peers, direct, run)
    figures.notes.append(f"others used {others.share():.0%} of the machine meanwhile")
    for group in figures.rounds:
        print(group_table(figures, group))
    for peer in peers:
        if isinstance(peer, Ours):
            print(goals_table(GOALS, figures, peer.name))
    known = versions(Path(sys.executable))
    measured = {peer.name: known[peer.name] for peer in peers if peer.name in known}
    print(*(f"{name}: {said}" for name, said in measured.items()), sep="\n")
    print(*figures.notes, sep="\n")
    if options.json:
        options.json.write_text(json.dumps({**figures.json(), "versions": measured}, indent=1))
    return 0


def measure(only: Sequence[str], peers: list[Peer], direct: Target, run: Run) -> None:
    with running(peers, direct.port, run) as targets:
        every = [direct, *targets]
        requests = Requests(every, run)
        steps: dict[str, Callable[[], None]] = {
            "bytes": lambda: check.measure(every, run),
            "ttfb": requests.first_byte,
            "rps": requests.rate,
            "growth": requests.growth,
            "streams": lambda: streaming.measure(every, run),
        }
        take(steps, only, run)
    steps = {
        "memory": lambda: memory.measure(direct, peers, run),
        "rules": lambda: rules.measure(peers, run),
    }
    take(steps, only, run)


def take(steps: dict[str, Callable[[], None]], only: Sequence[str], run: Run) -> None:
    """Take the steps that are asked for, say how long each took. One that fails ends alone."""
    for group, step in steps.items():
        if group in only:
            begun = time.monotonic()
            try:
                step()
            except Exception as error:
                traceback.print_exc()
                run.note(group, repr(error))
            print(f"{group}: {time.monotonic() - begun:.0f} s", file=sys.stderr)


def chosen(options: argparse.Namespace) -> list[Peer]:
    """The peers to measure: cacheproxy, its other trees and variants, then the others."""
    ours = [Ours("cacheproxy")]
    ours += [Ours(name, Path(path).resolve()) for name, path in options.tree]
    ours += [Ours(name, arguments=tuple(shlex.split(args))) for name, args in options.variant]
    others = [peer for name, peer in PEERS.items() if name != "cacheproxy"]
    if not options.peers:
        return [*ours, *others]
    named = {peer.name: peer for peer in (*ours, *others)}
    unknown = [name for name in options.peers if name not in named]
    if unknown:
        raise SystemExit(f"no peer {', '.join(unknown)}: there are {', '.join(named)}")
    return [peer for peer in named.values() if peer.name in options.peers or peer in ours[1:]]


def present(peers: list[Peer], figures: Figures) -> list[Peer]:
    """Those that can run; the others become notes."""
    found = []
    for peer in peers:
        lack = peer.missing()
        if lack:
            figures.notes.append(f"{peer.name} is missing: {lack}")
        else:
            found.append(peer)
    if wrk.missing():
        figures.notes.append(f"wrk is missing: {wrk.missing()}")
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setup", action="store_true", help="install the peers and end")
    parser.add_argument("--quick", action="store_true", help="short rounds: about three minutes")
    parser.add_argument("--only", type=names, default=GROUPS, metavar="GROUP,...")
    parser.add_argument("--peers", type=names, default=(), metavar="NAME,...")
    parser.add_argument("--tree", type=pair, action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--variant", type=pair, action="append", default=[], metavar="NAME=ARGS")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if "cpu" in options.only:  # measured with the same requests
        options.only = (*options.only, "ttfb")
    return options


def names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
