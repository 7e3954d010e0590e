"""What a proxy left on disk, as plain values: the lines of its capture, the rows of its totals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from same import steady
from same.replies import Json

_LONG = 400
"""Characters above which a value of a capture is kept beside: a body."""
_COUNTERS = frozenset({"samples"})
"""Tables of the server's counters alone, which are another matter."""
_OF_COUNTERS = frozenset({"counters", "settled", "reading", "metrics", "under_way"})
_DURATIONS = frozenset({"rollup_firsts"})
"""Tables of how long something took."""
_TIMES = frozenset(
    {"at", "first", "last", "first_seen", "last_seen", "first_ms", "total_ms", "added_us"}
)
_WORDS = frozenset(
    {"model", "dialect", "outcome", "verdict", "reason", "shape", "rules", "rendered"}
)
"""Columns that have the number of a word."""
_REFERENCES = {"upstream": "upstreams", "session": "sessions", "root": "sessions"}
_REFERENCES |= {"target": "targets"} | dict.fromkeys(_WORDS, "words")
Text = Callable[[str], str]


def captured(folder: Path, text: Text, bodies: Path) -> dict[str, list[Json]]:
    """Return the lines of each file of a capture; ``text``: takes ports and random marks out."""
    return {
        file.name: [
            _line(json.loads(line), text, bodies)
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        for file in sorted(folder.glob("*.jsonl"))
    }


def _line(line: Json, text: Text, bodies: Path) -> Json:
    """Return a line's members, and in which order they stand."""
    return {"members": " ".join(line), **_plain(steady.captured(line), text, bodies)}


def _plain(value: Any, text: Text, bodies: Path) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each, text, bodies) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, text, bodies) for each in value]
    if not isinstance(value, str):
        return value
    if len(value) <= _LONG:
        return text(value)
    body = steady.answer(text(value).encode("utf-8", "surrogatepass"))
    return steady.kept(body, bodies)


def rows(folder: Path, text: Text) -> dict[str, list[Json]]:
    """Return the rows of each table that has some, without times and what counts the server.

    Numbers of rows are replaced by what stands in them.
    """
    found: dict[str, list[Json]] = {}
    for file in sorted(folder.glob("*.db")):
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as totals:
            totals.row_factory = sqlite3.Row
            tables = [row["name"] for row in totals.execute(_TABLES)]
            raw = {name: list(map(dict, totals.execute(_ROWS.format(name)))) for name in tables}
        for name in tables:
            if name not in _COUNTERS | _DURATIONS:
                found[name] = [_row(row, raw, text) for row in raw[name]]
    return {
        name: each if name == "exchanges" else sorted(each, key=repr)
        for name, each in found.items()
        if each
    }


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_ROWS = 'SELECT * FROM "{}" ORDER BY 1'


def _row(row: Json, raw: dict[str, list[Json]], text: Text) -> Json:
    return dict(_columns(row, raw, text))


def _columns(row: Json, raw: dict[str, list[Json]], text: Text) -> Iterator[tuple[str, Any]]:
    """Yield what is known in a row; a number that stands for another row as that one's text."""
    for name, value in row.items():
        if value is None or name == "id" or name in _TIMES | _OF_COUNTERS:
            continue
        table = _REFERENCES.get(name)
        if table is not None and isinstance(value, int):
            yield name, text(" ".join(_named(table, value, raw)))
        else:
            yield name, text(value) if isinstance(value, str) else value


def _named(table: str, number: int, raw: dict[str, list[Json]]) -> Iterator[str]:
    """Yield the texts of the row ``number``: what names it."""
    for row in raw.get(table, ()):
        if row["id"] == number:
            if "upstream" in row:
                yield from _named("upstreams", row["upstream"], raw)
            yield from (
                value
                for name, value in row.items()
                if isinstance(value, str) and name not in _OF_COUNTERS
            )
