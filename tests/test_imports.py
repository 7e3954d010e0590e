"""The house: imports point one way, nouns have a home, classes and fields names."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import cacheproxy
from tests.nouns import NOUNS, naming, nodes

PACKAGE = Path(cacheproxy.__file__).parent
ROOT = Path(__file__).parents[1]
FILES = {
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for file in PACKAGE.rglob("*.py")
}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``statement``."""
    code = f"import sys\n{statement}\nimport json\nprint(json.dumps(sorted(sys.modules)))"
    path = json.dumps([entry for entry in sys.path if entry])
    code = f"import sys\nsys.path[:] = {path}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout))


@pytest.mark.slow
def test_core_translate_and_record_are_loaded_without_twisted_treq_or_pluggy():
    """Every module of them, and the package itself."""
    pure = ("cacheproxy.core", "cacheproxy.translate", "cacheproxy.record")
    modules = [name for name in FILES if name.startswith(pure)]
    loaded = loaded_by("import cacheproxy\n" + "\n".join(f"import {name}" for name in modules))
    assert {"cacheproxy.core.document.document", "cacheproxy.translate.translation"} < set(modules)
    assert loaded.issuperset(modules)
    assert not loaded & {"twisted", "treq", "pluggy", "zope.interface"}


@pytest.mark.slow
def test_plugins_do_not_import_the_reactor():
    loaded = loaded_by(
        "from cacheproxy import hookimpl\n"
        "import cacheproxy.hookspecs\n"
        "from cacheproxy.plugin.plugins import Plugins; Plugins()"
    )
    assert "pluggy" in loaded
    assert "twisted.internet.reactor" not in loaded


def test_what_a_client_package_needs_is_in_the_package_itself():
    """Everything named in __all__ can be had from cacheproxy."""
    assert "hookimpl" in cacheproxy.__all__
    for name in cacheproxy.__all__:
        assert getattr(cacheproxy, name) is not None
    with pytest.raises(AttributeError, match="nope"):
        cacheproxy.nope  # noqa: B018


PAGE = ROOT / "docs" / "architecture.md"
ROOMS = re.findall(r"^1\. `([\w.]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
"""From the bottom to the top, as the page has them."""


def imported_by(file: Path) -> set[str]:
    """The modules of the package that a file imports, at its head or later."""
    found = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                name if (name := f"{node.module}.{alias.name}") in FILES else node.module
                for alias in node.names
            }
    return found & FILES.keys()


@cache
def all_imports() -> dict[str, set[str]]:
    """What each module of the package imports of it."""
    return {module: imported_by(file) for module, file in FILES.items()}


def room_of(module: str) -> str:
    """The room that a module stands in, as the page calls it."""
    steps = module.split(".")[1:]
    if steps[0] not in ("core", "translate", "proxy"):
        return steps[0]
    return ".".join(steps[:2]) if ".".join(steps[:2]) in ROOMS else steps[0]


BELOW = {"core": -1}  # core/collector.py
BELOW |= {room: place for place, room in enumerate(ROOMS)}
HOUSE = sorted(FILES.keys() - {"cacheproxy", "cacheproxy.__main__"})


def test_the_page_names_every_room_once():
    rooms = {room_of(module) for module in HOUSE} - {"core"}
    assert sorted(ROOMS) == sorted(rooms), (
        'docs/architecture.md, "Who may import whom", has a line for each room: '
        f"add {sorted(rooms - {*ROOMS})}, remove {sorted({*ROOMS} - rooms)}"
    )


def test_a_room_imports_only_rooms_below_it():
    """Imports point one way, as docs/architecture.md has it: no two rooms need each other."""
    wrong = []
    for module in HOUSE:
        room = room_of(module)
        for imported in all_imports()[module] - {"cacheproxy"}:
            other = room_of(imported)
            if BELOW[other] > BELOW[room] or (room == "observe" and other.startswith("proxy")):
                wrong.append(f"{module} imports {imported}")
    assert not wrong, (
        'docs/architecture.md, "Who may import whom": a room imports those above it: '
        f"{'; '.join(wrong)}"
    )


def test_nothing_is_imported_of_clients_and_tools():
    """They are distributions of their own, which may be missing."""
    text = "\n".join(file.read_text() for file in FILES.values())
    assert re.findall(r"(?:import|from) (cacheproxy_\w+)", text) == []


def test_no_modules_need_each_other():
    TopologicalSorter(all_imports()).prepare()


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
        for node in nodes(file)
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
    several = {name: found for name, found in places.items() if len(found) > 1}
    assert not several, f"give each class a name of its own: {several}"


def test_each_field_is_documented_where_it_stands():
    """With its unit, and what None means. The wire form of a record repeats the record's."""
    lacking = [
        f"{file}: {node.name}.{field}"
        for file, text, node in classes()
        if is_record(node) and node.name != "_Line"
        for field in undocumented(text, node)
    ]
    assert not lacking, f"say beside (#:) or beneath each field what it is: {lacking}"


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_is_named_at_home(noun):
    """Elsewhere its value is asked. Whoever needs one more file, needs another field of it."""
    files = naming(NOUNS[noun])
    assert len(files) <= MOST[noun], (
        f"{len(files)} files name a {noun} outside its home, {MOST[noun]} may (MOST in this file): "
        f"ask its value instead, which has the names in {NOUNS[noun].homes}. {files}"
    )
