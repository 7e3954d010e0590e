"""The client packages of this repository: each stands wherever packages are listed."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cacheproxy.client_setup.need import Need, Setup
from cacheproxy.core.conversation.verdict import Reason, Rewrite
from cacheproxy.core.judge.advice import LEFT
from cacheproxy.core.prompt.client import client_of
from cacheproxy.plugin.loading import setups
from cacheproxy.testing import request
from tests import golden, installed, transcript
from tests.nouns import NOUNS

ROOT = Path(__file__).parents[1]
NAMES = sorted(folder.name for folder in (ROOT / "clients").iterdir())
LOADED = installed.packages()
SETUPS = setups(LOADED)
PACKAGES = {package.name: package for package in LOADED}
CLIENTS = LOADED.clients
URL = "http://127.0.0.1:8081"
CAUSES = {*Reason, *Rewrite, LEFT}
SHORT = ("pi", "continue")
"""Names that may stand for something else: tests/nouns.py looks for all others in the proxy."""
each_client = pytest.mark.parametrize("client", sorted(SETUPS))


def settings(folder):
    read = configparser.ConfigParser()
    read.read(folder / "setup.cfg")
    return read


def test_the_tests_have_them_all():
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    assert [line for line in lines if "clients/" in line] == [f"-e ./clients/{n}" for n in NAMES]
    assert PACKAGES.keys() == set(NAMES)
    assert [package.error for package in LOADED if package.error] == []


def named(agent):
    asked = request({"system": "You are."}, headers={"User-Agent": agent})
    speaker = CLIENTS.introduce(asked).speaker
    assert client_of(asked) == speaker or not speaker
    return speaker


def test_a_user_agent_names_its_client():
    transcript.holds("agents.txt", globals())


@pytest.mark.parametrize("name", NAMES)
def test_each_is_described_and_named_alike(name):
    """Its distribution, entry point and page; a row of the README; every rule in its own table."""
    assert name in SHORT or NOUNS["client"].named.search(name)
    folder = ROOT / "clients" / name
    module = f"cacheproxy_{name.replace('-', '_')}"
    read = settings(folder)
    assert read["metadata"]["name"] == f"cacheproxy-{name}"
    assert read["options.entry_points"]["cacheproxy"].split() == [name, "=", module]
    assert (folder / "tests").is_dir()
    assert f"[{name}](clients/{name}/README.md)" in (ROOT / "README.md").read_text()
    page = (folder / "README.md").read_text()
    assert f"pip install . ./clients/{name}\n" in page
    package = PACKAGES[name]
    assert {cause for cause, _, _ in package.client.advice} <= CAUSES
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (on|off) \|", page, re.MULTILINE))
    assert listed == {rule.name: "on" if rule.default else "off" for rule in package.rules}


ODD = """Qwen "3" \\ü 'c' {env:HOME} {file:/a} ${HOME} $${HOME} ${{ secrets.HOME }} = [x]\u2028"""
KEYS = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096, folder="/there")
NEEDS = {
    "nothing is known": Need(URL, late="unknown"),
    "an odd name": Need(URL, model=ODD, context=131_072, folder="/there", late="inline"),
    "two keys": KEYS,
    "a token": replace(KEYS, api_key="", late="refused"),
    "a name it may know": Need(URL, model="claude-local", context=65_536, serves=lambda _: False),
}
PARSED = {".json": json.loads, ".toml": tomllib.loads, ".yaml": yaml.safe_load}


def written(setup: Setup) -> Iterator[str]:
    """All of a setup, for people who compare."""
    yield from (f"unset {name}" for name in setup.unset)
    yield from (f"{name}={value}" for name, value in setup.told({}).items())
    if setup.content is not None:
        yield f"--- {setup.file}"
        yield setup.content
    yield from (f"note: {note}" for note in setup.notes)
    yield from (f"warning: {warning}" for warning in setup.warnings)
    if setup.launch is not None:
        yield f"--- run: {[setup.launch.program, *setup.launch.arguments]}"
        for name, value in {**setup.launch.variables, **setup.launch.files}.items():
            yield f"{name}={'the same' if value == setup.content else value}"


@each_client
@pytest.mark.parametrize("known", NEEDS)
def test_what_it_is_told(client, known, monkeypatch, tmp_path):
    """All of it, as in setup.txt beside the tests of its package; files hold no secret.

    Its page names the command that prints it.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
    setup = SETUPS[client].setup(NEEDS[known])
    folder = ROOT / "clients" / SETUPS[client].name
    said = "\n".join(written(setup)).replace("\u2028", "(U+2028)")
    golden.agrees(folder / "tests" / "setup.txt", f"{client}: {known}", said)
    assert f"cacheproxy env {client}" in (folder / "README.md").read_text()
    assert bool(setup.variables) != bool(setup.content)
    parsed = PARSED.get(Path(setup.file or "").suffix)
    assert parsed is None or parsed(setup.content)
    text = f"{setup.content or ''} {setup.notes}"
    assert "SECRET" not in text
    assert "SERVERKEY" not in text
    assert "None" not in text
    assert not setup.file or (setup.file.startswith("~/") and "null" not in setup.content)
