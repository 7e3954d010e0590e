"""How large the house is, and how many of its rooms one turn walks through.

    python benchmarks/house.py [TREE ...]    one table, a column for each tree (this one by default)
    python benchmarks/house.py --files       also the files that a turn enters, and the circles

Lines: all lines of all files of the repository (git ls-files). Source: cacheproxy, twisted, and
clients and tools without their tests. Circles: groups of modules that import each other, at run
time and with what is imported for types alone; rooms: the same of folders. Files over 350 lines,
source only.

A turn: the proxy runs in a process of its own (TREE/.venv) before a scripted llama-server, as
shipped, and gets the turns of a recorded Claude Code session (84 KB each), each answered with a
small event stream in one piece. Counted from when a turn's bytes come until it is judged and
written down: calls into our code in all threads, with sys.setprofile, and the files they enter.
A coroutine's or generator's resumption is a call, so is what dataclasses generate. Median of the
session's turns. What an idle proxy does in the same time is left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from same.drive import Proxy, load
from same.replies import said_after
from same.upstream import Kind, Upstream

REPOSITORY = Path(__file__).resolve().parents[1]
CAPTURE = REPOSITORY / "tests/captures/claude_2.1.174-gitchange.jsonl.xz"
SOURCE = re.compile(r"(cacheproxy|twisted)/.*\.py|(clients|tools)/[^/]+/(?!tests/).*\.py")
TESTS = re.compile(r"tests/.*\.py|(clients|tools)/[^/]+/tests/.*\.py")
MOST_LINES = 350
SETTLE_SECONDS = 1.5
Graph = Mapping[str, set[str]]
COUNTING = """
import collections, json, signal, sys, threading
calls = collections.Counter()
def count(frame, event, argument):
    if event == "call":
        file = frame.f_code.co_filename
        calls[frame.f_globals.get("__file__", "") if file == "<string>" else file] += 1
def write(*_):
    with open("calls.tmp", "w") as file:
        json.dump(calls.copy(), file)
    import os; os.replace("calls.tmp", "calls.json")
signal.signal(signal.SIGUSR2, write)
threading.setprofile(count)
sys.setprofile(count)
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="*", default=[REPOSITORY], metavar="TREE")
    parser.add_argument(
        "--files", action="store_true", help="print the files of a turn, the circles"
    )
    options = parser.parse_args()
    columns, entered = [], []
    for tree in options.trees:
        turns = list(calls_of_turns(tree.resolve()))
        columns.append({"tree": tree.resolve().name, **sizes(tree), **of_turns(turns)})
        entered.append(turns[-1])
    for name in columns[0]:
        print(f"{name:36}", *(f"{column[name]:>14}" for column in columns))
    for tree, files in zip(options.trees, entered, strict=True):
        if options.files:
            print(f"\n{tree}: files of the last turn, and calls of each")
            print(*(f"{n:6} {file}" for file, n in files.most_common()), sep="\n")
            for kind, graph in graphs(tree).items():
                print(f"\n{kind}", *(" ".join(sorted(each)) for each in circles(graph)), sep="\n  ")
    return 0


def sizes(tree: Path) -> dict[str, str]:
    listed = subprocess.run(
        ["git", "-C", str(tree), "ls-files", "*.py"], capture_output=True, text=True, check=True
    )
    lines = {
        name: len((tree / name).read_bytes().splitlines())
        for name in listed.stdout.split()
        if (tree / name).exists()
    }
    source = {name: n for name, n in lines.items() if SOURCE.fullmatch(name)}
    tests = {name: n for name, n in lines.items() if TESTS.fullmatch(name)}
    return {
        "source lines": f"{sum(source.values()):,}",
        "source files": f"{len(source)}",
        "tests lines": f"{sum(tests.values()):,}",
        "tests files": f"{len(tests)}",
        **{kind: f"{len(circles(graph))}" for kind, graph in graphs(tree).items()},
        f"source files over {MOST_LINES} lines": f"{sum(n > MOST_LINES for n in source.values())}",
        "largest source file": f"{max(source.values())}",
    }


def graphs(tree: Path) -> dict[str, Graph]:
    """Return what is looked at for circles."""
    running = imports(tree, types=False)
    return {
        "circles of modules at run time": running,
        "circles of modules with types": imports(tree, types=True),
        "circles of rooms at run time": rooms(running),
    }


def imports(tree: Path, *, types: bool) -> Graph:
    """Return which of the package's modules each one imports while it is imported.

    ``types``: with what is imported for types alone, and within functions.
    """
    files = {}
    for file in (tree / "cacheproxy").rglob("*.py"):
        parts = file.relative_to(tree).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return {
        name: {found for found in _imported(file, types=types, known=set(files)) if found != name}
        for name, file in files.items()
    }


def _imported(file: Path, *, types: bool, known: set[str]) -> Iterator[str]:
    waiting: list[ast.AST] = [ast.parse(file.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from known & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from known & ({inner} if inner in known else {str(node.module)})
        elif types or not _is_later(node):
            waiting.extend(ast.iter_child_nodes(node))


def _is_later(node: ast.AST) -> bool:
    is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return is_typing or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def rooms(graph: Graph) -> Graph:
    """Return the same of folders; what stands in no room (config, tap) is one of its own."""
    packages = {name.rpartition(".")[0] for name in graph}
    of = {
        name: name if name in packages or name.count(".") < 2 else name.rpartition(".")[0]
        for name in graph
    }
    found: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        found[of[name]] |= {of[each] for each in imported} - {of[name]}
    return found


def circles(graph: Graph) -> set[frozenset[str]]:
    """Return the groups whose members reach each other."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {
        frozenset(each for each in reached[name] if name in reached.get(each, ())) for name in graph
    }
    return {group for group in found if len(group) > 1}


def _reached(graph: Graph, name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for each in graph.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def calls_of_turns(tree: Path) -> Iterator[Counter[str]]:
    """Yield the calls of each turn by file; the first turns, which import and learn, left out."""
    lines = [line for line in load(CAPTURE) if line["method"] == "POST"]
    said = {number: said_after(lines, number) for number in range(len(lines))}
    with (
        tempfile.TemporaryDirectory() as folder,
        Upstream(Kind(llama=True), said) as upstream,
        Proxy(tree, Path(folder), upstream.port, first=COUNTING) as proxy,
    ):
        for number in range(3):
            proxy.send(lines[number], number)
        time.sleep(SETTLE_SECONDS)
        start = _counted(proxy.pid, Path(folder))
        time.sleep(SETTLE_SECONDS)
        before = _counted(proxy.pid, Path(folder))
        idle = before - start
        for number in range(3, len(lines)):
            proxy.send(lines[number], number)
            time.sleep(SETTLE_SECONDS)
            now = _counted(proxy.pid, Path(folder))
            files: Counter[str] = Counter()
            for file, times in (now - before - idle).items():
                if file.startswith((f"{tree}/cacheproxy/", f"{tree}/clients/")):
                    files[os.path.relpath(file, tree)] += times
            before = now
            yield files


def _counted(pid: int, folder: Path) -> Counter[str]:
    """Return how often each file has been entered."""
    (folder / "calls.json").unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    until = time.monotonic() + 10
    while not (folder / "calls.json").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return Counter(json.loads((folder / "calls.json").read_text()))


def of_turns(turns: list[Counter[str]]) -> dict[str, str]:
    return {
        "files that one turn enters": f"{statistics.median_low(map(len, turns))}",
        "calls of ours in one turn": f"{statistics.median_low(sum(t.values()) for t in turns):,}",
    }


if __name__ == "__main__":
    sys.exit(main())
