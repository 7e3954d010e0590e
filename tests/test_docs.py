"""The documents are held against the code."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import msgspec
import pytest

from cacheproxy import hookspecs
from cacheproxy.config import RuleTable, options
from cacheproxy.core.rules.places import NAMED
from cacheproxy.plugin.packages import Packages

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
HOOKS = (ROOT / "docs/hooks.md").read_text()
RULES = (ROOT / "docs/rules.md").read_text()

SPECS = [
    (name, function)
    for name, function in inspect.getmembers(hookspecs, inspect.isfunction)
    if name.startswith("cacheproxy_")
]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(("name", "function"), SPECS)
def test_the_manual_has_each_hook_as_the_code_has_it(name, function):
    """Signature and docstring of every hook stand in docs/hooks.md, word for word."""
    heading = f"## `{name}({', '.join(inspect.signature(function).parameters)})`"
    assert heading in HOOKS
    section = HOOKS.split(heading)[1].split("\n## ")[0].strip()
    assert section == inspect.cleandoc(function.__doc__)


def test_the_manual_has_no_hook_that_is_gone():
    """Every hook that docs/hooks.md describes exists."""
    described = set(re.findall(r"^## `(\w+)\(", HOOKS, re.MULTILINE))
    assert described == {name for name, _ in SPECS}


def test_the_examples_of_the_manual_work(tmp_path, monkeypatch):
    """A file and a package of one rule, which fires for its client alone; a client; the tests."""
    from cacheproxy.testing import (
        assert_idempotent,
        assert_untouched,
        normalized,
        request,
        rules_of,
    )

    file, package, tests, client = blocks(HOOKS, "python")
    module = types.ModuleType("cacheproxy_example")
    exec(package, module.__dict__)
    rules = rules_of(module)
    clock = {"system": "Be kind.\nIt is 12:34", "messages": []}
    asked = request(clock, headers={"User-Agent": "ExampleAgent/2.0"})
    assert b"It is 00:00" in normalized(rules, asked).body
    assert_idempotent(rules, asked)
    assert_untouched(rules, request(clock, headers={"User-Agent": "OtherAgent/2.0"}))
    (tmp_path / "rules.py").write_text(file)
    (named,) = Packages().with_files([str(tmp_path / "rules.py")])
    assert (named.client, named.rules) == (module.CLIENT, tuple(rules))
    monkeypatch.setitem(sys.modules, "cacheproxy_example", module)
    tried = types.ModuleType("test_example")
    exec(tests, tried.__dict__)
    for name in ("the_prompt_grows_from_turn_to_turn", "other_clients_are_left_alone"):
        getattr(tried, f"test_{name}")()
    made = eval(f"({client})", module.__dict__)
    said = {"system": "Be kind.\nExample-Run: 7f (agent)", "messages": []}
    assert made.sent(request(said))
    assert not made.sent(request(clock))


def test_the_rule_page_names_every_key_and_place():
    """Each key of a [[rule]] with its default, each named place; and the example is valid."""
    for field in msgspec.structs.fields(RuleTable):
        default = "must be given"
        if field.default_factory is not msgspec.NODEFAULT:
            default = f"`{json.dumps(field.default_factory())}`"
        elif field.default is None:
            default = "none" if field.name == "note" else "must be given, or `pin`"
        elif field.default is not msgspec.NODEFAULT:
            default = f"`{json.dumps(field.default)}`"
        assert f"| `{field.name}` | {default} |" in RULES
    for name in NAMED:
        assert f"* `{name}`:" in RULES
    for block in blocks(RULES, "toml") + blocks(README, "toml"):
        for table in tomllib.loads(block).get("rule", []):
            msgspec.convert(table, RuleTable).rule()


def test_the_readme_lists_every_option_with_its_default():
    """The option table of the README is the code's."""
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| (.*?) \|", README, re.MULTILINE))
    shown = {
        option.flag: ",".join(option.default)
        if isinstance(option.default, tuple)
        else str(option.default)
        for option in options()
    }
    assert set(rows) == set(shown)
    for flag, default in shown.items():
        wanted = "off" if default == "False" else f"`{default}`" if default else "none"
        assert rows[flag] == wanted, flag


@pytest.mark.slow
def test_ci_takes_the_commands_from_the_readme():
    """The demo's and the tests', each with its installation, and runs them as they stand there."""
    ci = (ROOT / ".ci/run").read_text()
    function = re.search(r"^command_of_the_readme\(\) \{.*?^\}", ci, re.MULTILINE | re.DOTALL)[0]
    lines = [line for block in blocks(README, "sh") for line in block.splitlines()]
    for variable, end in (("demo", "cacheproxy demo"), ("tests", "pytest -n auto --dist loadfile")):
        call = re.search(rf"^{variable}=\$\((.*)\)$", ci, re.MULTILINE)[1]
        found = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{function}\n{call}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.removesuffix("\n")
        assert found in lines
        assert found.endswith(end)
        assert f'bash -euo pipefail -c "${variable}"\n' in ci


def test_every_command_of_the_readme_exists():
    """The README names no subcommand that the command does not have."""
    from cacheproxy.cli.main import COMMANDS

    named = set(re.findall(r"(?:^|`|&& )cacheproxy ([a-z]+)\b", README, re.MULTILINE))
    assert named
    assert named <= set(COMMANDS)


@pytest.mark.slow
def test_the_changelog_can_be_built():
    """The news fragments are ones that towncrier understands."""
    built = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0.0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr


def test_no_init_file_stands_where_it_would_overwrite_twisteds_own():
    """An __init__.py in twisted/ or twisted/plugins/ would end up in the wheel."""
    assert not list((ROOT / "twisted").rglob("__init__.py"))
