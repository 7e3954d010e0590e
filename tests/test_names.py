"""Names: one class has one, each field of a record says what it holds, nouns are named at home."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.nouns import NOUNS, naming

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    file
    for pattern in ("cacheproxy/**/*.py", "clients/*/cacheproxy_*", "tools/*/cacheproxy_*")
    for found in ROOT.glob(pattern)
    for file in (found.rglob("*.py") if found.is_dir() else [found])
    if file.suffix == ".py"
)
RECORDS = {"NamedTuple", "TypedDict", "Struct"}
"""What a record's class inherits, if it is no dataclass."""


MOST = {"dialect": 10, "server": 10, "client": 0}
"""Files that may name a kind of a noun outside its home."""


@cache
def classes() -> list[tuple[Path, str, ast.ClassDef]]:
    """Each file's classes, with its text."""
    texts = {file: file.read_text() for file in SOURCES}
    return [
        (file.relative_to(ROOT), text, node)
        for file, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]


def is_record(node: ast.ClassDef) -> bool:
    """Whether its annotations are fields."""
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return any("dataclass" in mark for mark in marks) or bool(bases & RECORDS)


def undocumented(text: str, node: ast.ClassDef) -> Iterator[str]:
    """The fields with neither a ``#:`` on their lines, nor a text beneath, nor one in a table."""
    lines = text.splitlines()
    for number, one in enumerate(node.body):
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        beneath = node.body[number + 1] if number + 1 < len(node.body) else None
        is_text = isinstance(beneath, ast.Expr) and isinstance(beneath.value, ast.Constant)
        spelled = "\n".join(lines[one.lineno - 1 : one.end_lineno])
        if not (is_text or "#:" in spelled or "_row(" in spelled):
            yield one.target.id


def test_one_name_is_one_class():
    """In the proxy, its tools and the client packages."""
    places = defaultdict(list)
    for file, _, node in classes():
        places[node.name].append(f"{file}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_each_field_is_documented_where_it_stands():
    """With its unit, and what None means. The wire form of a record repeats the record's."""
    lacking = [
        f"{file}: {node.name}.{field}"
        for file, text, node in classes()
        if is_record(node) and node.name != "_Line"
        for field in undocumented(text, node)
    ]
    assert lacking == []


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_is_named_at_home(noun):
    """Elsewhere its value is asked. Whoever needs one more file, needs another field of it."""
    files = naming(NOUNS[noun])
    assert len(files) <= MOST[noun], files
