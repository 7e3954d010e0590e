"""``cacheproxy plugins``: which packages and rules there are, and which are on (plugins.txt)."""

import json
import sys
from pathlib import Path

import pytest

from cacheproxy.plugin import loading
from tests import golden
from tests.cli.invoking import invoke, printed, refused, transcript
from tests.plugin.installing import distribution
from tests.proxy.harness import Upstream, whole

GOOD = '''
"""The first line is the summary.

The rest is not.
"""
from cacheproxy import Client, CodeRule, Rule, hookimpl


@hookimpl
def cacheproxy_client():
    return Client("good")


@hookimpl
def cacheproxy_rules():
    return [
        Rule("good-stamp", "system", "stamp", "", why="a stamp changes"),
        Rule("good-off", "system", "x", "", "rarely needed", default=False, client=Client("*")),
    ]


@hookimpl
def cacheproxy_normalize(request):
    return None
'''
OWN = (
    "[[rule]]\nname = 'my-own'\nwhere = 'user'\npattern = 'x'\nreplacement = ''\n"
    "why = 'my reason'\n"
)
FILE = Path(__file__).with_name("plugins.txt")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """A good package is installed here and one that cannot be loaded, and no others."""
    found = loading.entry_points
    ours = ("good", "broken")
    monkeypatch.setattr(
        loading, "entry_points", lambda group: [one for one in found(group) if one.name in ours]
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CACHEPROXY_PORT", "1")  # where nobody answers
    for name, source in (("good", GOOD), ("broken", "raise SystemExit('gone')")):
        (tmp_path / f"{name}_plugin.py").write_text(source)
        distribution(tmp_path, f"{name}-plugin", f"{name}_plugin", name, version="1.2")
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "off.toml").write_text('enable = ["good-off"]\n' + OWN)
    (tmp_path / "mine.toml").write_text('plugin = ["mine.py"]\n')
    mine = GOOD.replace("good-", "mine-").replace('Client("good"', 'Client("mine"')
    (tmp_path / "mine.py").write_text(mine)
    (tmp_path / "open.py").write_text(mine)
    (tmp_path / "open.py").chmod(0o666)
    yield tmp_path
    for name in ours:
        sys.modules.pop(f"{name}_plugin", None)


CASES = {
    "two packages and the config file": ("--config FOLDER/own.toml", {}),
    "as JSON": ("--config FOLDER/own.toml --json", {}),
    "switched in file and environment": (
        "--config FOLDER/off.toml",
        {"CACHEPROXY_DISABLE": "good-stamp,good"},
    ),
    "blocked, and not imported": ("", {"CACHEPROXY_BLOCK": "broken"}),
    "files": ("--plugin FOLDER/mine.py", {}),
    "a file in the config file": ("--config FOLDER/mine.toml --json", {}),
    "a file that others may write": ("--plugin FOLDER/open.py", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_lists(folder, name, monkeypatch):
    """By name, with version, reason, whose requests a rule edits, and whether it is on."""
    command, environ = CASES[name]
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    golden.agrees(FILE, name, transcript(f"plugins {command}", folder=folder))
    assert ("broken_plugin" in sys.modules) is False


def test_without_any_package_it_says_what_to_install(monkeypatch):
    """The proxy then passes everything through."""
    monkeypatch.setattr(loading, "entry_points", lambda _: [])
    golden.agrees(FILE, "none is installed", transcript("plugins"))


@pytest.mark.parametrize(
    ("environ", "text", "words"),
    [
        ({"CACHEPROXY_ENABLE": "nosuch"}, "", "no rule is called nosuch"),
        ({"CACHEPROXY_BLOCK": "nosuch"}, "", "block names no installed plugin: nosuch"),
        ({"CACHEPROXY_PORT": "x"}, "", "CACHEPROXY_PORT must be"),
        ({}, "port = ", "is not valid TOML:"),
        ({}, OWN + OWN, "rule 'my-own' comes from both"),
        ({}, OWN.replace("user", "nowhere"), "in the config file: rule 'my-own'"),
    ],
)
def test_a_mistake_is_one_line(folder, environ, text, words):
    """With exit code 2, as the proxy itself would say it."""
    (folder / "own.toml").write_text(text)
    assert words in refused("plugins", "--config", folder / "own.toml", **environ)


RUNNING = {
    "another was switched on": ({"rules": ["good", "calls-as-before"]}, "1.2", True),
    "another version runs": ({"rules": ["good"]}, "1.1", True),
    "it could not be loaded": ({"rules": ["good"]}, "1.2", False),
    "nothing is edited": ({"rules": []}, "1.2", True),
}


@pytest.mark.parametrize("name", RUNNING)
def test_what_the_running_proxy_lacks(name):
    """It is on after a reload, and another version of a package after a restart."""
    page, version, loads = RUNNING[name]
    package = {"name": "good", "version": version, "loaded": loads}
    page |= {"version": "0.1.0", "upstream": {}, "packages": [package]}
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(json.dumps(page).encode())))
    golden.agrees(FILE, name, transcript("plugins --proxy URL", url=upstream.url))
    data = json.loads(printed("plugins", "--json", "--proxy", upstream.url))
    (rules,) = (one["rules"] for one in data["packages"] if one["name"] == "good")
    lacks = None if not page["rules"] else False
    assert [rule["running"] for rule in rules] == [lacks, lacks, None if lacks is None else True]
    upstream.close()


@pytest.mark.parametrize(
    "command",
    [
        ["plugins"],
        ["rules"],
        ["doctor"],
        ["inspect", "a.jsonl"],
        ["diagnose", "--from", "a.jsonl"],
        ["replay", "a.jsonl", "--against", "http://127.0.0.1:9"],
        ["service", "install", "--kind", "systemd", "--dry-run"],
    ],
    ids=lambda command: command[0],
)
def test_each_command_with_rules_takes_plugins_and_refuses_one_alike(folder, command, monkeypatch):
    """With the proxy's own words and exit code 2."""
    file = folder / "wrong.py"
    file.write_text("x = 1\nraise ValueError('no')\n")
    monkeypatch.undo()
    result = invoke(*command, "--plugin", file)
    assert result.exit_code == 2
    said = f"cacheproxy: plugin {file}, line 2: ValueError: no; fix the file, or leave it out"
    assert result.stderr.splitlines()[-1] == said
