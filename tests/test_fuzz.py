"""The fuzz targets: they run, and instrument what is there."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"
TARGETS = sorted(file.stem for file in FUZZ.glob("*.py") if "    start(one" in file.read_text())


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_for_a_few_inputs(name, tmp_path):
    """In a process of its own: it instruments our modules, and narrows their limits."""
    pytest.importorskip("atheris")
    subprocess.run(
        [sys.executable, "-m", f"fuzz.{name}", str(tmp_path), "-runs=300", "-seed=1"],
        cwd=FUZZ.parent,
        check=True,
        timeout=300,
        capture_output=True,
    )


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_instruments_modules_that_are_there(name):
    """Atheris says nothing of a module that is not, and finds nothing then."""
    for call in ast.walk(ast.parse((FUZZ / f"{name}.py").read_text())):
        if isinstance(call, ast.keyword) and call.arg == "include":
            names = ast.literal_eval(call.value)
            break
    assert [name for name in names if find_spec(name) is None] == []
