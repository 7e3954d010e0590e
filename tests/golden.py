"""Texts that are kept in a file beside the tests and compared whole, each under its name.

``GOLDEN=write pytest …`` writes the file anew: what has changed is then read in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

_HEAD = "=== "


def sections(file: Path) -> dict[str, str]:
    """The texts of a file by their names."""
    parts = f"\n{file.read_text(encoding='utf-8')}".split(f"\n{_HEAD}")[1:] if file.exists() else []
    return {name: text.strip("\n") for name, _, text in (part.partition("\n") for part in parts)}


def agrees(file: Path, name: str, text: str) -> None:
    """Fail unless ``text`` is what stands in ``file`` under ``name``."""
    text = "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
    kept = sections(file)
    if os.environ.get("GOLDEN") == "write":
        written = "\n\n".join(f"{_HEAD}{key}\n{kept}" for key, kept in {**kept, name: text}.items())
        file.write_text(f"{written}\n", encoding="utf-8")
        return
    assert text == kept.get(name), f"{file.name}: {name} (GOLDEN=write pytest … writes it anew)"


def complete(file: Path, names: object) -> None:
    """Fail if ``file`` has a text under a name that no test has any more."""
    assert set(sections(file)) == set(names), f"{file.name}: remove what no test compares"
