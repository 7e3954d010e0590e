"""The client packages of this repository: each stands wherever packages are listed."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from cacheproxy.plugin.packages import Packages

ROOT = Path(__file__).parents[1]
NAMES = sorted(folder.name for folder in (ROOT / "clients").iterdir())


def settings(folder):
    read = configparser.ConfigParser()
    read.read(folder / "setup.cfg")
    return read


def test_the_tests_have_them_all():
    """Installed so that a change needs no installation."""
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    assert [line for line in lines if "clients/" in line] == [f"-e ./clients/{n}" for n in NAMES]
    assert {package.name for package in Packages.load()} == set(NAMES)
    assert [package.error for package in Packages.load() if package.error] == []


@pytest.mark.parametrize("name", NAMES)
def test_each_is_described_and_named_alike(name):
    """Its distribution, entry point and page; a row of the README; every rule in its own table."""
    folder = ROOT / "clients" / name
    module = f"cacheproxy_{name.replace('-', '_')}"
    read = settings(folder)
    assert read["metadata"]["name"] == f"cacheproxy-{name}"
    assert read["options.entry_points"]["cacheproxy"].split() == [name, "=", module]
    assert (folder / "tests").is_dir()
    assert f"[{name}](clients/{name}/README.md)" in (ROOT / "README.md").read_text()
    page = (folder / "README.md").read_text()
    assert f"pip install . ./clients/{name}\n" in page
    (package,) = (one for one in Packages.load() if one.name == name)
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (on|off) \|", page, re.MULTILINE))
    assert listed == {rule.name: "on" if rule.default else "off" for rule in package.rules}
