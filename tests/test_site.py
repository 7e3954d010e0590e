"""The documentation's site: it builds, its reference is the table's, its commands exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cacheproxy.cli.main import main
from cacheproxy.plugin.loading import installed, setups

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
COMMANDS = re.compile(r"(?<![\w/.-])cacheproxy ([a-z]+[^`\n|&)\"]*)")


def test_the_references_are_made_from_the_code():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, text in generate.pages().items():
        assert (ROOT / "docs" / name).read_text() == text, "run: python docs/generate.py"


def test_the_start_has_a_section_for_each_client():
    """With the command that tells what it needs."""
    text = (ROOT / "docs/start.md").read_text()
    for client in setups(installed()):
        assert f"cacheproxy env {client}" in text


def code(text):
    """What stands in code: blocks and spans, without texts that are no shell's."""
    shells = re.findall(r"```(?:sh|text)\n(.*?)```", text, re.DOTALL)
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [*shells, *re.findall(r"`([^`\n]+)`", outside)]


def unknown_in(line):
    """The word of a command line that the command does not have, if any."""
    words = shlex.split(line)
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        name = words.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            return name
        command = found
    options = {flag for parameter in command.params for flag in parameter.opts}
    used = {word.partition("=")[0] for word in words if word.startswith("-")}
    return " ".join(used - {"-h", "--help"} - options)


def test_each_command_of_the_pages_exists():
    """So do its options."""
    pieces = [(page.name, piece) for page in PAGES for piece in code(page.read_text())]
    lines = [(page, found) for page, piece in pieces for found in COMMANDS.findall(piece)]
    assert len(lines) > 100
    wrong = [(page, line) for page, line in lines if unknown_in(line.strip())]
    assert not wrong, f"README.md or docs/ name commands or options that do not exist: {wrong}"


@pytest.mark.slow
def test_it_builds(tmp_path):
    """Strictly: no link leads nowhere."""
    pytest.importorskip("mkdocs")
    # without --quiet, which hides the warnings from --strict
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert built.returncode == 0, built.stderr
    for page in PAGES:
        path = page.relative_to(DOCS).with_suffix("")
        folder = path.parent if path.name == "index" else path
        assert (tmp_path / folder / "index.html").exists(), page
    assert not list(tmp_path.rglob("*.py"))


def test_every_page_is_in_the_menu():
    """A page that nobody finds is no help. A decision's is in the list of decisions."""
    menu = (ROOT / "mkdocs.yml").read_text()
    decisions = (DOCS / "decisions/index.md").read_text()
    for page in PAGES:
        if page.parent == DOCS or page.name == "index.md":
            assert f": {page.relative_to(DOCS).as_posix()}\n" in menu
        else:
            assert f"]({page.name})" in decisions
