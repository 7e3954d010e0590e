"""``cacheproxy plugins``: which packages and rules there are, and which are on."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cli.invoking import invoke, printed, refused
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


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Plugins are looked for here too."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CACHEPROXY_PORT", "1")  # where nobody answers
    yield tmp_path
    for name in ("good_plugin", "broken_plugin"):
        sys.modules.pop(name, None)


@pytest.fixture
def install(folder):
    """Put a plugin on the path, as an installer would."""

    def install(name, source=GOOD):
        (folder / f"{name}_plugin.py").write_text(source)
        distribution(folder, f"{name}-plugin", f"{name}_plugin", name, version="1.2")

    return install


@pytest.fixture
def own(folder):
    """A config file; the arguments that name it."""

    def write(text):
        (folder / "own.toml").write_text(text)
        return ("--config", str(folder / "own.toml"))

    return write


def found(*arguments, **environ):
    """What ``--json`` says, without the packages this machine has installed otherwise."""
    data = json.loads(printed("plugins", "--json", *arguments, **environ))
    return {
        "packages": {
            package["name"]: package
            for package in data["packages"]
            if package["distribution"] in ("good-plugin", "broken-plugin")
        },
        "config": data["config"],
    }


def test_a_package_and_its_rules(install, own):
    """By name, with version, reason, whose requests it edits, and whether it is on; then yours."""
    install("good")
    lines = printed("plugins", *own(OWN)).splitlines()
    at = lines.index("good-plugin 1.2")
    assert lines[at + 1 : at + 4] == [
        "  on   good-stamp  good  a stamp changes",
        "  off  good-off    *     rarely needed",
        "  on   good        good  The first line is the summary.",
    ]
    assert lines[lines.index("the config file") + 1] == "  on   my-own  *  my reason"
    assert lines[-1] == "Switch a rule on or off with --enable NAME, --disable NAME."


def test_the_same_as_json(install, own):
    """For scripts."""
    install("good")
    data = found(*own(OWN))
    assert data["packages"]["good"] == {
        "name": "good",
        "distribution": "good-plugin",
        "version": "1.2",
        "file": None,
        "blocked": False,
        "error": None,
        "rules": [
            {
                "name": "good-stamp",
                "on": True,
                "running": None,
                "client": "good",
                "why": "a stamp changes",
            },
            {
                "name": "good-off",
                "on": False,
                "running": None,
                "client": "*",
                "why": "rarely needed",
            },
            {
                "name": "good",
                "on": True,
                "running": None,
                "client": "good",
                "why": "The first line is the summary.",
            },
        ],
        "servers": [],
    }
    assert data["config"] == [
        {"name": "my-own", "on": True, "running": None, "client": "*", "why": "my reason"}
    ]


def test_settings_switch_rules(install, own):
    """As they would for the proxy: file and environment."""
    install("good")

    def on(**environ):
        package = found(*own('enable = ["good-off"]\n' + OWN), **environ)["packages"]["good"]
        return [rule["name"] for rule in package["rules"] if rule["on"]]

    assert on() == ["good-stamp", "good-off", "good"]
    assert on(CACHEPROXY_DISABLE="good-stamp,good") == ["good-off"]


def test_a_blocked_package(install):
    """Named as such, and not even imported."""
    install("broken", "raise SystemExit('imported')")
    text = printed("plugins", CACHEPROXY_BLOCK="broken")
    assert "broken-plugin 1.2   blocked" in text
    assert "broken_plugin" not in sys.modules
    assert found(CACHEPROXY_BLOCK="broken")["packages"]["broken"]["blocked"] is True


def test_a_package_that_cannot_be_loaded(install):
    """The others are listed all the same."""
    install("broken", "raise SystemExit('gone')")
    install("good")
    lines = printed("plugins").splitlines()
    assert "broken-plugin 1.2   could not be loaded: SystemExit: gone" in lines
    assert "good-plugin 1.2" in lines


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
def test_a_mistake_is_one_line(own, environ, text, words):
    """With exit code 2, as the proxy itself would say it."""
    assert words in refused("plugins", *own(text), **environ)


def test_without_any_package_it_says_what_to_install(monkeypatch):
    """The proxy then passes everything through."""
    monkeypatch.setattr("cacheproxy.plugin.loading.entry_points", lambda _: [])
    text = printed("plugins")
    assert "No client package is installed" in text
    assert "pip install ./clients/*" in text


def test_a_plugin_may_be_a_file(folder, own):
    """Named on the command line or in the config file, it is listed with its path."""
    file = folder / "mine.py"
    file.write_text(GOOD.replace("good-", "mine-").replace('Client("good"', 'Client("mine"'))
    arguments = own('plugin = ["mine.py"]')
    for given in (("--plugin", str(file)), arguments):
        lines = printed("plugins", *given).splitlines()
        assert lines[lines.index(f"mine ({file})") + 1].startswith("  on   mine-stamp ")
        (mine,) = (
            each
            for each in json.loads(printed("plugins", "--json", *given))["packages"]
            if each["file"]
        )
        assert (mine["name"], mine["file"]) == ("mine", str(file))
    file.chmod(0o666)
    assert (f"mine ({file})   warning: every user of this machine may write") in printed(
        "plugins", *arguments
    )


@pytest.fixture
def running():
    """A proxy whose health page is as given."""

    def answers(**page):
        body = json.dumps({"version": "0.1.0", "upstream": {}, **page}).encode()
        upstream.reset(lambda peer, received: peer.send(whole(body)))
        return upstream.url

    upstream = Upstream()
    yield answers
    upstream.close()


def test_what_the_running_proxy_lacks_is_on_after_a_reload(install, running):
    """And another version of a package after a restart; what it has is simply on."""
    install("good")
    names = [{"name": "good", "version": "1.2"}]
    url = running(rules=["good", "calls-as-before", "tools-as-before"], packages=names)

    def of_good():
        lines = printed("plugins", "--proxy", url).splitlines()
        at = lines.index("good-plugin 1.2")
        return [" ".join(line.split()[:-1]) for line in lines[at + 1 : at + 4]], lines

    rules, lines = of_good()
    assert rules[0].startswith("on after a reload good-stamp")
    assert rules[1].startswith("off good-off")
    assert rules[2].startswith("on good ")
    assert f"  curl -X POST {url}/_cacheproxy/reload" in lines
    data = found("--proxy", url)["packages"]["good"]["rules"]
    assert [rule["running"] for rule in data] == [False, False, True]
    failed = {"name": "good", "version": "1.2", "loaded": False}
    for package in ({"name": "good", "version": "1.1"}, failed):
        running(rules=["good"], packages=[package])
        rules, lines = of_good()
        assert rules[0].startswith("on after a restart good-stamp")
        assert "without them. Restart it." in "\n".join(lines)
    running(rules=[])  # nothing is edited: its upstream is not local
    rules, lines = of_good()
    assert rules[0].startswith("on good-stamp")
    assert "curl" not in "\n".join(lines)


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
def test_each_command_with_rules_takes_plugins_and_refuses_one_alike(folder, command):
    """With the proxy's own words and exit code 2."""
    file = folder / "mine.py"
    file.write_text("x = 1\nraise ValueError('no')\n")
    result = invoke(*command, "--plugin", file)
    assert result.exit_code == 2
    said = f"cacheproxy: plugin {file}, line 2: ValueError: no; fix the file, or leave it out"
    assert result.stderr.splitlines()[-1] == said
