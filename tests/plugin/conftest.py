"""Installing client packages."""

import importlib
import sys
import textwrap

import pytest

from tests.plugin.installing import CLIENT, EDITING, HEAD, distribution


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install distributions into a folder of the path: one module, one entry point each."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def one(name, code, *, module=None, target=None, own_name=None, client=True):
        module = module or "plugin_of_" + name.replace("-", "_")
        code = textwrap.dedent(code)
        if client and any(f"@hookimpl\ndef cacheproxy_{hook}(" in code for hook in EDITING):
            code = CLIENT + code
        (tmp_path / f"{module}.py").write_text(HEAD + code, encoding="utf-8")
        distribution(tmp_path, own_name or f"dist-{module}", target or module, name)
        importlib.invalidate_caches()

    yield one
    for name in set(sys.modules) - before:
        if name.startswith("plugin_of_"):
            del sys.modules[name]
