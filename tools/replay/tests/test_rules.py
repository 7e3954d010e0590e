"""The rules of a replay are those of the user's proxy."""

import tomllib
from dataclasses import replace

import pytest
from cacheproxy_replay.run import Fold, ruleset

from cacheproxy.plugin.package import PluginError
from cacheproxy.sources import load
from tests import conversation

TWO = """
enable = ["off"]
[[rule]]
name = "on"
where = ["system", "user"]
pattern = 'a"\\d'
replacement = ""
client = "codex"
[[rule]]
name = "off"
where = "user"
pattern = "b\\u007f"
pin = true
default = false
"""


FILE = """
from cacheproxy import Client, Rule
RULES = [Rule("mine", "user", "x", "", client=Client("*"))]
"""


def settings(tmp_path, text):
    file = tmp_path / "c.toml"
    file.write_text(text)
    return load({}, {}, str(file))


def own(found):
    return {name for name in found.names if name in ("on", "off")}


def test_names_switch_rules_on_and_off_whatever_the_file_says(tmp_path):
    config = settings(tmp_path, TWO)
    assert own(ruleset(config)) == {"on", "off"}
    assert own(ruleset(config, without_rules=["off"])) == {"on"}
    assert own(ruleset(config, with_rules=["off"], without_rules=["on"])) == {"off"}


def test_a_name_nobody_has_is_told(tmp_path):
    with pytest.raises(PluginError, match="no rule is called"):
        ruleset(settings(tmp_path, TWO), with_rules=["nonsense"])


def test_the_configuration_of_the_proxy_says_the_same(tmp_path):
    """Written out and read again, the same rules are on."""
    (tmp_path / "mine.py").write_text(FILE)
    made = ruleset(settings(tmp_path, f'plugin = ["mine.py"]\n{TWO}'), without_rules=["on"])
    assert "mine" in made.names
    again = ruleset(settings(tmp_path, made.toml))
    assert again.plan.rules == made.plan.rules
    assert again.names == made.names
    assert tomllib.loads(made.toml)["rule"][1]["pattern"] == "b\x7f"


def test_folding_keeps_what_a_pin_rule_saw_first(tmp_path):
    pin = '[[rule]]\nname = "pin"\nwhere = "system"\npattern = "nonce-[0-9a-f]+"\npin = true\n'
    found = ruleset(settings(tmp_path, pin))
    fold = Fold(found.plan)
    requests = [replace(one.received, headers=()) for one in conversation.captured()]
    systems = [fold(request)[0].json["messages"][0]["content"] for request in requests]
    assert set(systems) == {conversation.system(1)}
