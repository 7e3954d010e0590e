"""Imports point one way: the core knows no network, and nobody imports the reactor by accident."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import cacheproxy.core

CORE = sorted(
    f"cacheproxy.core.{module.name}" for module in pkgutil.iter_modules(cacheproxy.core.__path__)
)
TRANSLATE = [
    "cacheproxy.translate.messages",
    "cacheproxy.translate.chat",
    "cacheproxy.translate.models",
]


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``statement``."""
    code = f"import sys\n{statement}\nimport json\nprint(json.dumps(sorted(sys.modules)))"
    path = json.dumps([entry for entry in sys.path if entry])
    code = f"import sys\nsys.path[:] = {path}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["cacheproxy", "cacheproxy.core", *CORE, *TRANSLATE])
def test_core_is_loaded_without_twisted_treq_or_pluggy(module):
    """Each module of the core, and the package itself, stands alone."""
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert not loaded & {"twisted", "treq", "pluggy", "zope.interface"}


def test_every_core_module_is_checked():
    """The list is read from the folder, and is not empty."""
    assert {"cacheproxy.core.document", "cacheproxy.core.usage"} <= set(CORE)


@pytest.mark.parametrize(
    "statement",
    [
        "import cacheproxy.hookspecs",
        "import cacheproxy.plugin.plugins",
        "from cacheproxy import hookimpl",
        "from cacheproxy.plugin.plugins import Plugins; Plugins()",
    ],
)
def test_plugins_do_not_import_the_reactor(statement):
    """Which reactor it is, is for whoever starts the service to say."""
    loaded = loaded_by(statement)
    assert "pluggy" in loaded
    assert "twisted.internet.reactor" not in loaded


def test_what_a_client_package_needs_is_in_the_package_itself():
    """Everything named in __all__ can be had from cacheproxy."""
    import cacheproxy

    assert "hookimpl" in cacheproxy.__all__
    for name in cacheproxy.__all__:
        assert getattr(cacheproxy, name) is not None
    with pytest.raises(AttributeError, match="nope"):
        cacheproxy.nope  # noqa: B018
