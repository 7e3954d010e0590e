"""The budgets of lines in docs/architecture.md: what the page allows, and what is used.

    python -m tests.budgets

writes into the page what is used now, with a little to spare. Whoever needs more than the page
allows does so in the same commit, and says why in its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cacheproxy"
PAGE = ROOT / "docs" / "architecture.md"
ROOM = re.compile(r"^1\. `([\w.]+)`(?: \(([\d,]+)\))?", re.MULTILINE)
ROW = re.compile(r"^\| `([\w./-]+)` \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
TABLE = re.compile(r"(?<=\| lines of \| source \| tests \|\n\|---\|---\|---\|\n)(\|.*\n)*")


def lines(files: Iterable[Path]) -> int:
    """Lines of Python, empty ones and comments too, but not what setuptools has built beside it."""
    sources = (file for file in files if "build" not in file.relative_to(ROOT).parts)
    return sum(file.read_bytes().count(b"\n") for file in sources)


def used_by_rooms(rooms: Iterable[str]) -> dict[str, int]:
    """Lines of each room: of its file, or of its folder without the rooms inside."""
    used = {}
    for room in rooms:
        path = PACKAGE.joinpath(*room.split("."))
        file = path.with_suffix(".py")  # a folder of its name may be left, with what was compiled
        used[room] = lines([file] if file.exists() else path.rglob("*.py"))
    return {
        room: used[room] - sum(used[inner] for inner in used if inner.startswith(f"{room}."))
        for room in used
    }


def used_by_the_rest() -> dict[str, tuple[int, int]]:
    """Lines of each distribution and of its tests. The proxy's own count all rooms together."""
    used = {"cacheproxy": (lines(PACKAGE.rglob("*.py")), lines((ROOT / "tests").rglob("*.py")))}
    for setup in sorted([*ROOT.glob("clients/*/setup.cfg"), *ROOT.glob("tools/*/setup.cfg")]):
        folder = setup.parent
        whole, tests = lines(folder.rglob("*.py")), lines((folder / "tests").rglob("*.py"))
        used[folder.relative_to(ROOT).as_posix()] = (whole - tests, tests)
    return used


def with_some_to_spare(used: int) -> int:
    """What a budget is set to: one in a hundred more, rounded up."""
    step = 10 if used < 10_000 else 100
    return -(-used * 101 // (100 * step)) * step


def allowed_to_rooms(page: str) -> dict[str, int]:
    """The budget of each room, from the bottom to the top; 0 if the page has none."""
    return {room: number(budget or "0") for room, budget in ROOM.findall(page)}


def allowed_to_the_rest(page: str) -> dict[str, tuple[int, int]]:
    """The budgets in the table."""
    found = ROW.findall(page)
    return {name: (number(source), number(tests)) for name, source, tests in found}


def number(written: str) -> int:
    return int(written.replace(",", ""))


def row(name: str, source: int, tests: int) -> str:
    """A line of the table."""
    return f"| `{name}` | {with_some_to_spare(source):,} | {with_some_to_spare(tests):,} |"


def as_used(page: str) -> str:
    """The page, with the budgets that what is used now would have."""
    used = used_by_rooms(allowed_to_rooms(page))
    page = ROOM.sub(lambda found: f"1. `{found[1]}` ({with_some_to_spare(used[found[1]]):,})", page)
    rows = "".join(f"{row(name, *used)}\n" for name, used in used_by_the_rest().items())
    return TABLE.sub(rows, page)


if __name__ == "__main__":
    PAGE.write_text(as_used(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
