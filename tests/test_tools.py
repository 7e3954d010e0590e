"""The tools of this repository: commands in distributions of their own."""

import configparser
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from cacheproxy.cli.main import TOOLS, main
from tests.test_imports import loaded_by

ROOT = Path(__file__).parents[1]
NAMES = sorted(file.parent.name for file in ROOT.glob("tools/*/setup.cfg"))


def test_a_command_that_is_not_installed_says_how_to_get_it():
    assert {name: f"tools/{name}" for name in NAMES} == TOOLS


def test_the_tests_have_them_all():
    """Installed so that a change needs no installation; each brings its command."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    assert [line for line in lines if "tools/" in line] == [f"-e ./tools/{n}" for n in NAMES]
    for name in NAMES:
        command = main.get_command(click.Context(main), name)
        assert command.callback.__module__.startswith("cacheproxy_")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_described_and_named_alike(name):
    folder = ROOT / "tools" / name
    read = configparser.ConfigParser()
    read.read(folder / "setup.cfg")
    assert read["metadata"]["name"] == f"cacheproxy-{name}"
    package = f"cacheproxy_{name.replace('-', '_')}"
    inside = [file.parent.relative_to(folder) for file in folder.glob(f"{package}/**/*.py")]
    packages = read["options"]["packages"].split()
    assert sorted(packages) == sorted({".".join(each.parts) for each in inside})
    assert packages[0] == package
    assert "cacheproxy-llm >= 0.2" in read["options"]["install_requires"]
    entry, _, module = read["options.entry_points"]["cacheproxy"].split()
    assert (entry, module.partition(".")[0]) == (name, package)
    assert (folder / "tests").is_dir()
    assert f"[{name}](tools/{name}/README.md)" in (ROOT / "README.md").read_text()
    assert f"$ pip install . ./tools/{name}" in (folder / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_list_of_commands_imports_little_of_each(name):
    """The module with the hook, and nothing that it needs when it runs."""
    (entry,) = entry_points(group="cacheproxy", name=name)
    package = entry.module.partition(".")[0]
    loaded = loaded_by(f"import {entry.module}")
    assert {each for each in loaded if each.startswith(package)} == {package, entry.module}
    assert not loaded & {"twisted", "rich"}
