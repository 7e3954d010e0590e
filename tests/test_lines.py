"""How many lines there are: of the proxy, of its tests, and of one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = {"cacheproxy": 53_160, "tests": 56_110}
"""Lines of Python in these folders, with comments and empty lines. They sink; whoever needs more
finds what has become needless first."""
LONGEST = 350
"""Lines of a file: it has one noun."""
LONGER = {
    "clients/openclaw/tests/test_openclaw.py": 460,
    "tests/browser/test_dashboard.py": 362,
    "tests/core/conversation/people.py": 603,
    "tests/core/conversation/worlds.py": 381,
    "tests/core/document/test_document.py": 400,
    "tests/daemon/test_reloading.py": 516,
    "tests/llama/causes/causes.py": 481,
    "tests/observe/test_judging_asking.py": 381,
    "tests/plugin/test_loading.py": 590,
    "tests/proxy/downstream/test_channel.py": 373,
    "tests/proxy/exchange/test_holding.py": 552,
    "tests/proxy/exchange/test_normalizing.py": 369,
    "tests/proxy/exchange/test_relay.py": 394,
    "tests/proxy/harness.py": 576,
    "tests/proxy/probing/test_warming.py": 421,
    "tests/proxy/translation/test_translating.py": 438,
    "tests/cli/test_run.py": 468,
    "tests/test_client_pins.py": 391,
    "tests/totals/test_database.py": 391,
}
"""Files that are longer as yet, and how long they may be. They shrink; no row is added."""


def lines_by_file() -> dict[str, int]:
    """Lines of each file of Python, not of what setuptools has built beside it."""
    folders = (ROOT / name for name in ("cacheproxy", "clients", "tests", "tools"))
    files = (file.relative_to(ROOT) for folder in folders for file in folder.rglob("*.py"))
    return {
        file.as_posix(): (ROOT / file).read_bytes().count(b"\n")
        for file in files
        if "build" not in file.parts
    }


def wrong(lines: Mapping[str, int], longer: Mapping[str, int], most: Mapping[str, int]) -> str:
    """What to do about files and folders that have too many lines; "" for nothing."""
    found = [
        f"{name}/ has {used:,} lines, {allowed:,} are allowed: find what has become needless"
        for name, allowed in most.items()
        if (used := sum(lines[file] for file in lines if file.startswith(f"{name}/"))) > allowed
    ]
    found += [
        f"{file} has {used} lines, {allowed} are allowed: split it, a noun a file"
        for file, used in sorted(lines.items())
        if used > (allowed := longer.get(file, LONGEST))
    ]
    found += [
        f"{file} has at most {LONGEST} lines: remove its row in tests/test_lines.py"
        for file in longer
        if lines.get(file, 0) <= LONGEST
    ]
    return "\n".join(found)


def test_neither_folders_nor_files_have_too_many_lines():
    said = wrong(lines_by_file(), LONGER, MOST)
    assert not said, said


def test_what_has_too_many_lines_is_named_with_what_to_do():
    files = {"a/long.py": 351, "a/longer.py": 400, "a/shrunk.py": 350, "b/short.py": 1}
    longer = {"a/longer.py": 399, "a/shrunk.py": 360, "a/gone.py": 500}
    assert wrong(files, longer, {"a": 1100, "b": 1}).splitlines() == [
        "a/ has 1,101 lines, 1,100 are allowed: find what has become needless",
        "a/long.py has 351 lines, 350 are allowed: split it, a noun a file",
        "a/longer.py has 400 lines, 399 are allowed: split it, a noun a file",
        "a/shrunk.py has at most 350 lines: remove its row in tests/test_lines.py",
        "a/gone.py has at most 350 lines: remove its row in tests/test_lines.py",
    ]
    assert wrong({"a/long.py": 351}, {"a/long.py": 351}, {"a": 351}) == ""
