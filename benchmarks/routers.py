"""What recorded sessions cost behind each router of docs/fleet.md, with three real servers.

    python benchmarks/routers.py                    every router that is installed
    python benchmarks/routers.py --only 'HAProxy*'  those whose headings match
    python benchmarks/routers.py --list             what there is

Nine recorded sessions of several clients take turns, request by request, for one token each, at
three embedded llama.cpp servers with the settings that llama-server has by default. Before them
stands the proxy, and between both the router, run by the files and the command of the page.
Besides: one server alone, the servers at random without the proxy, HAProxy without the key, a
direct stick on the root key without any router, and the servers as the proxy's own upstreams.
Prints a Markdown table: tokens evaluated, the share reused, and the turns that another server had
than the turn before of their root conversation. One or two minutes for each row. Routers are looked
for in PATH.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path

from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.child.process import ChildProxy
from cacheproxy.testing import find_captures
from tests.llama.replay import load_sessions, write_model_for
from tests.llama.routers import SETTINGS, Fleet, Recipe, Tally, drive, recipes, routing, sent_of

CAPTURES = (
    "claude_2.1.174-gitchange", "claude-bare", "claude-datechange_bare", "openclaw-completions",
    "opencode-subagent", "pi-datechange", "cline-tui", "aider-stdin", "aider-diff_file",
)  # fmt: skip
QUIET = ("--placement", "quiet")
"""Test prompts of the proxy's own would be counted as well."""


@contextmanager
def fleet_of(model: Path, count: int = 3) -> Iterator[Fleet]:
    """Start so many servers."""
    with ExitStack() as stack:
        yield Fleet([stack.enter_context(LlamaServer(model, **SETTINGS)) for _ in range(count)])


def alone(model: Path, sent, *, through: bool) -> Tally:
    """One server."""
    with fleet_of(model, 1) as fleet, ExitStack() as stack:
        url = fleet.urls[0]
        if through:
            url = stack.enter_context(ChildProxy(url, *QUIET)).url
        return drive(sent, fleet, lambda _: url)


def spread(model: Path, sent, *, through: bool, sticks: bool) -> Tally:
    """Three servers: at random, or the first of a root key in turn and all others there."""
    with fleet_of(model) as fleet, ExitStack() as stack:
        urls = fleet.urls
        if through:
            urls = [stack.enter_context(ChildProxy(url, *QUIET)).url for url in urls]
        turns, homes, chance = itertools.cycle(urls), dict[str, str](), random.Random(1)

        def url_for(key: str) -> str:
            if not sticks:
                return chance.choice(urls)
            if key not in homes:
                homes[key] = next(turns)
            return homes[key]

        return drive(sent, fleet, url_for)


def routed(model: Path, sent, recipe: Recipe) -> Tally:
    """Three servers behind a router, the proxy before it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        fleet_of(model) as fleet,
        routing(recipe, fleet.urls, Path(folder)) as router,
        ChildProxy(router, *recipe.options, *QUIET) as proxy,
    ):
        return drive(sent, fleet, lambda _: proxy.url, recipe.key)


def own_pool(model: Path, sent, *, proxies: int = 1) -> Tally:
    """Three servers as upstreams of one proxy, or of several that take turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        fleet_of(model) as fleet,
        ExitStack() as stack,
    ):
        file = Path(folder, "pool.toml")
        tables = (
            f'[[upstream]]\nname = "big{at}"\nurl = "{url}"\n' for at, url in enumerate(fleet.urls)
        )
        file.write_text("".join(tables), encoding="utf-8")
        made = (ChildProxy("", "--config", str(file), *QUIET) for _ in range(proxies))
        turns = itertools.cycle([stack.enter_context(proxy).url for proxy in made])
        return drive(sent, fleet, lambda _: next(turns))


def main() -> int:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--captures", default=",".join(CAPTURES), metavar="NAME[,NAME]")
    asked = parser.parse_args()
    names = asked.captures.split(",")
    if asked.list:
        print("\n".join(recipes()))
        return 0
    sent = sent_of(names)
    with tempfile.TemporaryDirectory() as folder:
        files = [find_captures(f"{name}.jsonl", __file__)[0] for name in names]
        found = [session for file in files for session in load_sessions(file)]
        model = write_model_for(Path(folder, "m.gguf"), found)
        rows: dict[str, Callable[[], Tally]] = {
            "one server, direct": lambda: alone(model, sent, through=False),
            "one server": lambda: alone(model, sent, through=True),
            "at random, direct": lambda: spread(model, sent, through=False, sticks=False),
            "stick, direct": lambda: spread(model, sent, through=False, sticks=True),
            "stick": lambda: spread(model, sent, through=True, sticks=True),
        }
        rows["own pool"] = lambda: own_pool(model, sent)
        rows["own pool, three proxies by turns"] = lambda: own_pool(model, sent, proxies=3)
        for name, recipe in recipes().items():
            rows[name] = lambda recipe=recipe: routed(model, sent, recipe)
        keyless = recipes()["HAProxy"]._replace(options=())
        rows["HAProxy, no key"] = lambda: routed(model, sent, keyless)
        heads = ("", "evaluated", "reused", "moved", "seconds", "not answered")
        print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
        for name, measure in rows.items():
            if fnmatch(name, asked.only):
                begun = time.monotonic()
                try:
                    tally = measure()
                except AssertionError as error:
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                print(row(name, tally, time.monotonic() - begun), flush=True)
                print(sorted(tally.homes.values()), file=sys.stderr)
    return 0


def row(name: str, tally: Tally, seconds: float) -> str:
    """A line of the table."""
    cells = (
        name, f"{tally.evaluated:,}", f"{tally.reuse:.1%}", str(tally.moved), f"{seconds:.0f}",
        ", ".join(map(str, tally.statuses)) or "0",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
