"""Imports point one way: the core knows no network, and nobody imports the reactor by accident."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import cacheproxy

PACKAGE = Path(cacheproxy.__file__).parent
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
def test_core_and_translate_are_loaded_without_twisted_treq_or_pluggy():
    """Every module of both, and the package itself."""
    modules = [name for name in FILES if name.startswith(("cacheproxy.core", "cacheproxy.trans"))]
    loaded = loaded_by("import cacheproxy\n" + "\n".join(f"import {name}" for name in modules))
    assert {"cacheproxy.core.document.document", "cacheproxy.translate.body"} < set(modules)
    assert loaded.issuperset(modules)
    assert not loaded & {"twisted", "treq", "pluggy", "zope.interface"}


@pytest.mark.slow
def test_plugins_do_not_import_the_reactor():
    """Which reactor it is, is for whoever starts the service to say."""
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


KNOWN_CIRCLES = {"downstream", "document"}
"""The protocols of the client's side know each other, and the document its readers."""
APART = [
    ("cacheproxy.core", "cacheproxy"),
    ("cacheproxy.translate", "cacheproxy.proxy"),
    ("cacheproxy.proxy", "cacheproxy.observe"),
    ("cacheproxy.observe", "cacheproxy.proxy"),
    ("cacheproxy.observe", "cacheproxy.web"),
    ("cacheproxy.proxy", "cacheproxy.daemon"),
    ("cacheproxy.plugin", "cacheproxy.daemon"),
    ("cacheproxy.web", "cacheproxy.daemon"),
]
"""Rooms that must not import the room beside them; ``cacheproxy`` is all of it but the room."""


def imported_by(file: Path) -> set[str]:
    """The modules of the package that a file imports, at its head or later."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
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
    """The folder that a module stands in; a module of the top folder is a room of its own."""
    room = module.rpartition(".")[0]
    return module if room in ("", "cacheproxy") or FILES[module].stem == "__init__" else room


@pytest.mark.parametrize(("room", "other"), APART)
def test_no_arrow_runs_up(room, other):
    """Who imports whom is as docs/architecture.md says."""
    wrong = [
        f"{module} imports {imported}"
        for module, all_imported in all_imports().items()
        if module.startswith(f"{room}.")
        for imported in all_imported
        if imported.startswith(f"{other}.") and not imported.startswith(f"{room}.")
    ]
    assert not wrong


def test_no_two_rooms_of_the_core_or_the_proxy_need_each_other():
    """A room can be read with what stands below it, and nothing else."""
    rooms: dict[str, set[str]] = {}
    for module, imported in all_imports().items():
        if module.startswith(("cacheproxy.core.", "cacheproxy.proxy.")):
            below = {room_of(name) for name in imported} - {room_of(module)}
            rooms.setdefault(room_of(module), set()).update(below)
    TopologicalSorter(rooms).prepare()


def test_no_modules_need_each_other():
    """No circle of imports, wherever it would begin."""
    TopologicalSorter(
        {
            module: {name for name in found if room_of(name).split(".")[-1] not in KNOWN_CIRCLES}
            for module, found in all_imports().items()
        }
    ).prepare()
