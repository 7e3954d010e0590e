"""The documents are held against the code."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tomllib
import types
from dataclasses import replace
from pathlib import Path

import click
import msgspec
import pytest

from cacheproxy import Case, Checkup, Launch, Need, Setup, Volatile, hookspecs
from cacheproxy.alarm.alarming import payload, signature
from cacheproxy.config import RuleTable, options
from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.core.rules.places import NAMED
from cacheproxy.plugin.packages import Packages
from cacheproxy.record.alarms import Alarm
from cacheproxy.record.exchange import Outcome
from cacheproxy.tables import AlarmTable

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
HOOKS = (ROOT / "docs/hooks.md").read_text()
RULES = (ROOT / "docs/rules.md").read_text()
CURE = (ROOT / "docs/cure.md").read_text()
CONFIGURATION = (ROOT / "docs/configuration.md").read_text()
LOG = (ROOT / "docs/log.md").read_text()
ALARM = (ROOT / "docs/alarm.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_manual_has_each_hook_as_the_code_has_it():
    """Signature and docstring of every hook stand in docs/hooks.md, word for word; and no other."""
    said = {
        f"{name}({', '.join(inspect.signature(function).parameters)})": inspect.getdoc(function)
        for name, function in inspect.getmembers(hookspecs, inspect.isfunction)
        if name.startswith("cacheproxy_")
    }
    sections = re.findall(r"^## `(\w+\([^`]*)`\n(.*?)(?=\n## |\Z)", HOOKS, re.MULTILINE | re.DOTALL)
    assert {heading: text.strip() for heading, text in sections} == said


def test_the_examples_of_the_manual_work(tmp_path, monkeypatch):
    """A file and a package of one rule, which fires for its client alone; a client; the tests."""
    from cacheproxy.testing import (
        assert_idempotent,
        assert_untouched,
        normalized,
        request,
        rules_of,
    )

    file, tests, client, setup, servers, checkup = blocks(HOOKS, "python")
    module = types.ModuleType("cacheproxy_example")
    exec(file, module.__dict__)
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
    exec(setup, module.__dict__)
    told = module.cacheproxy_setup(Need("http://here", model="m")).variables
    assert told["OPENAI_BASE_URL"] == "http://here/v1"
    exec(checkup, module.__dict__)
    case = Case(
        {"EXAMPLE_BASE_URL": "http://localhost:80"}, tmp_path, "http://p", "http://127.0.0.1"
    )
    assert [found.name for found in module.cacheproxy_checkup(case).findings] == ["example"]
    assert module.cacheproxy_checkup(replace(case, environ={})) == Checkup()
    (tmp_path / "servers.py").write_text(servers)
    (brings,) = Packages().with_files([str(tmp_path / "servers.py")])
    assert [kind.name for kind in brings.servers] == ["ExampleServer"]


def test_the_manual_lists_what_a_setup_and_a_checkup_are_made_of():
    """Each public name of what a hook gets, and of what it returns."""
    for heading, classes in (
        ("## What `cacheproxy env` prints", (Need, Setup, Launch)),
        ("## What `cacheproxy doctor` finds", (Case, Checkup, Volatile)),
    ):
        text = HOOKS[HOOKS.index(heading) :]
        for name in {name for made in classes for name in vars(made) if name[0] != "_"}:
            assert re.search(rf"`(?:Setup\.)?{name}[(`]", text), name


def test_the_rule_page_names_every_key_and_place():
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
    for block in blocks(RULES, "toml") + blocks(CURE, "toml"):
        for table in tomllib.loads(block).get("rule", []):
            msgspec.convert(table, RuleTable).rule()


def test_the_alarm_page_is_the_code():
    """Each key with its default, each member that is sent; its five lines verify a signature."""
    for field in msgspec.structs.fields(AlarmTable):
        assert f"| `{field.name}` | `{json.dumps(field.default)}` |" in ALARM
    (sent,) = (json.loads(block) for block in blocks(ALARM, "json"))
    alarm = Alarm("c", "c/s", 1, "unknown", "Unknown", 1, None, 1, "run", "http://u", 0.0)
    body = payload(alarm)
    assert list(sent) == list(json.loads(body))
    module = types.ModuleType("receiver")
    exec(blocks(ALARM, "python")[0], module.__dict__)
    assert module.is_ours("bird", body, signature("bird", body))
    assert not module.is_ours("bird", body + b" ", signature("bird", body))
    (table,) = (tomllib.loads(block) for block in blocks(ALARM, "toml"))
    msgspec.convert(table["alarm"], AlarmTable).check()


def test_the_page_on_the_configuration_lists_every_option_with_its_default():
    rows = dict(
        re.findall(
            r"^\| `([a-z_]+)` \| .*? \| (none|`[^`|]*`) \| [^|]", CONFIGURATION, re.MULTILINE
        )
    )
    shown = {
        option.field: ",".join(option.default)
        if isinstance(option.default, tuple)
        else str(option.default)
        for option in options()
    }
    assert set(rows) == set(shown), (
        "docs/configuration.md has a row for each field of cacheproxy/config.py, and no other: "
        f"add {sorted(shown.keys() - rows)}, remove {sorted(rows.keys() - shown)}"
    )
    for field, default in shown.items():
        wanted = "`false`" if default == "False" else f"`{default}`" if default else "none"
        assert rows[field] == wanted, field


def test_the_readme_stays_short():
    """A newcomer reads it whole: what does not fit stands in docs/, and is linked."""
    assert len(README.split()) <= 1200


def test_every_link_of_the_readme_leads_somewhere():
    """To a file, and to a heading of it; mkdocs checks the links of docs/."""
    links = re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", README)
    assert len(links) > 40
    for file, anchor in links:
        text = (ROOT / file).read_text() if file.endswith(".md") else ""
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        words = [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
        assert (ROOT / file).exists(), file
        assert not anchor or anchor in words, (file, anchor)


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
    from cacheproxy.cli.main import main

    named = set(re.findall(r"(?:^|`|&& )cacheproxy ([a-z]+)\b", README, re.MULTILINE))
    assert named
    assert named <= set(main.list_commands(click.Context(main)))


def test_what_is_installed_from_a_checkout_is_there():
    """Each way has the proxy, the demo and all packages of clients, by folders that there are."""
    ways = [
        line
        for block in blocks(README, "text")
        for line in block.splitlines()
        if "./clients/*" in line
    ]
    assert [way.split()[0] for way in ways] == ["uv", "pipx", "python3"]
    for way in ways:
        assert re.search(r"install \.(?: |$)", way)
        (folder,) = re.findall(r" (\./tools/\S+)", way)
        assert (ROOT / folder / "pyproject.toml").exists()
    for folder in (ROOT / "clients").iterdir():  # as a shell spells the star out
        assert (folder / "pyproject.toml").exists()
    name = re.search(r"^name = (\S+)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    assert f"pipx inject {name[1]} " in ways[1]


@pytest.mark.slow
def test_the_changelog_can_be_built():
    built = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0.0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr


def test_each_law_that_is_cited_is_on_the_page_of_the_architecture():
    """Comments and tests cite them by number."""
    page = (ROOT / "docs/architecture.md").read_text()
    laws = re.findall(r"^(\d+)\. \*\*", page, re.MULTILINE)
    assert laws == [str(number) for number in range(1, 13)]
    folders = [ROOT / name for name in ("cacheproxy", "clients", "fuzz", "tests", "tools")]
    texts = [file.read_text() for folder in folders for file in folder.rglob("*.py")]
    cited = [number for text in texts for number in re.findall(r"\b[Ll]aw (\d+)", text)]
    assert cited
    assert set(cited) <= set(laws), "a comment cites a law that docs/architecture.md does not have"


def test_no_init_file_stands_where_it_would_overwrite_twisteds_own():
    assert not list((ROOT / "twisted").rglob("__init__.py"))


def test_the_page_on_the_log_has_each_verdict():
    """And each way to fail, as the log spells it."""
    failed = [str(each).upper() for each in Outcome if each is not Outcome.COMPLETE]
    verdicts = LOG.partition("The verdict is one of these")[2].partition("\n## ")[0]
    shown = set(re.findall(r"^\| `([^`:]+)", verdicts, re.MULTILINE))
    assert shown == {*map(str, Judgement), "side", *failed}


CODE = "\n".join(file.read_text() for file in (ROOT / "cacheproxy").rglob("*.py"))


def test_the_page_on_the_log_has_the_words_of_the_code():
    """Most pairs of words stand side by side in the code; the others meet there at a value."""
    said = re.sub(r"\{[^{}\n]*\}", "", CODE)
    rows = re.findall(r"^\| `(.+?)` \|", LOG, re.MULTILINE)
    for form in (row for row in rows if row.count(" ") > 2):
        pairs = re.findall(r"\b(?=([a-z]+[,:]? [a-z]+\b))", form)
        assert sum(pair in said for pair in pairs) >= len(pairs) * 0.6, form


def test_the_page_on_the_log_has_each_line_of_the_log():
    """By its first words that stand together without a value, as the log spells them."""
    forms = re.findall(r"\b_log\.(?:info|warn)\(\s*\"((?:[^\"\\]|\\.)*)\"", CODE)
    assert len(forms) > 30
    for form in forms:
        pieces = re.split(r"\{.*?\}", form.partition(" (logged once")[0])
        words = next((piece.split() for piece in pieces if " " in piece.strip()), [])
        assert " ".join(words[:5]).strip(" :") in LOG
