"""A plugin that is a file: what it may be, and one line for everything else."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import is_quick
from cacheproxy.core.rules.fold import normalize
from cacheproxy.plugin.files import load_file
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from tests.turning import TurningReactor

TABLE = """\
'''Makes a clock constant.'''
from cacheproxy import Client, Rule
CLIENT = Client("*")
RULES = (Rule("clock", "/a", r"\\d\\d:\\d\\d", "00:00", "the clock"),)
"""
HOOKS = """\
'''Finds what no rule can say.'''
import dataclasses
from cacheproxy import Client, Edit, hookimpl

@dataclasses.dataclass
class Known:
    word: "str"

@hookimpl
def cacheproxy_client():
    return Client("*")

@hookimpl
def cacheproxy_normalize(request):
    return [Edit("/a", Known("y").word, "why")]

@hookimpl
def cacheproxy_session(request):
    return "mine/1"
"""


@pytest.fixture
def write(tmp_path):
    """Write a plugin's file; return its path."""

    def one(code, name="rules.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    return one


def edited(packages, text):
    request = Request("POST", "/v1/messages", body=b'{"a": "%s"}' % text.encode())
    return normalize(request, packages.normalizers()).request.json["a"]


def files(*paths):
    return Packages().with_files([str(path) for path in paths])


def test_a_table_of_rules_is_a_whole_plugin(write):
    """CLIENT and RULES stand for the two hooks that return them."""
    packages = files(write(TABLE))
    assert [(package.name, package.client.name) for package in packages] == [("rules", "*")]
    assert edited(packages, "it is 12:34") == "it is 00:00"


def test_a_file_may_have_every_hook(write):
    """Its normalize hook is a rule with the file's name, spelt as rules are."""
    packages = files(write(HOOKS, "My_rules.py"))
    assert [package.name for package in packages] == ["My_rules"]
    assert [(rule.name, rule.why) for rule in packages.normalizers()] == [
        ("my-rules", "Finds what no rule can say.")
    ]
    assert edited(packages, "x") == "y"
    assert packages.session(Request("POST", "/v1/messages", body=b"{}")).name == "mine/1"
    assert not any(map(is_quick, packages.normalizers()))


def test_it_leaves_nothing_behind(write, tmp_path):
    """No byte code beside it, and no folder on Python's path."""
    before = list(sys.path)
    files(write(TABLE))
    assert [path.name for path in tmp_path.iterdir()] == ["rules.py"]
    assert sys.path == before


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        ("x = 1\ndef f(:\n", 2, "SyntaxError"),
        ("\n\nraise RuntimeError('first\\nsecond')", 3, "RuntimeError: first; fix the file"),
        ("raise SystemExit(3)", 1, "SystemExit: 3"),
        ("import json\njson.loads('no')", 2, "JSONDecodeError"),
        ("import beside", 1, "No module named 'beside'; install that module; a plugin is one file"),
        ("x = 1", None, "it has no hooks: mark functions with @hookimpl, or set CLIENT and RULES"),
        ("", None, "it has no hooks"),
        (
            "\ndef cacheproxy_rules(): ...",
            2,
            ("cacheproxy_rules is not marked as a hook: write @hookimpl"),
        ),
        (
            "from cacheproxy import hookimpl\n\n@hookimpl\ndef cacheproxy_session(body): ...",
            3,
            "cacheproxy_session has no argument 'body'",
        ),
        (
            "from cacheproxy import hookimpl\n@hookimpl\ndef cacheproxy_rulez(): ...",
            2,
            "unknown hook cacheproxy_rulez",
        ),
        (TABLE.replace('CLIENT = Client("*")', ""), None, "the package does not name its"),
        (TABLE.replace('Client("*")', '"*"', 1), None, "returns a cacheproxy.Client"),
        (TABLE.replace('"clock",', '"A Clock",'), 4, "RuleError: rule 'A Clock': a name must be"),
        (TABLE.replace(",)\n", "\n").replace("(Rule(", "Rule("), None, "'Rule' object is not it"),
        (TABLE + "x = '\0'", None, "null bytes"),
        ("# coding: nonsense\n", None, "unknown encoding"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(write, code, line, words):
    """It names the file, the line where there is one, and what to do."""
    path = write(code)
    before = dict(sys.modules)
    with pytest.raises(PluginError) as raised:
        files(path)
    text = str(raised.value)
    assert text.startswith(f"plugin {path}" + (f", line {line}: " if line else ""))
    assert words in text
    assert "\n" not in text
    assert sys.modules == before


def test_what_is_no_file_is_one_line_too(tmp_path):
    """A folder, nothing at all, a pipe, what nobody may read, what is no Python file."""
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    for name, words in {
        "folder.py": "it is a folder; name a Python file in it",
        "gone.py": "there is no such file; correct --plugin, or plugin in the config file",
        "pipe.py": "it is not a regular file",
        "a\0.py": "letters, digits",
        "cacheproxy-claude-code": "does not end in .py",
        "my rules.py": "letters, digits",
        "metrics.py": "the name 'metrics' is taken",
    }.items():
        with pytest.raises(PluginError) as raised:
            files(tmp_path / name)
        assert words in str(raised.value)
        assert str(raised.value).startswith(f"plugin {tmp_path / name}: ")


def test_a_file_that_does_not_come_to_its_end_is_named(write, capsys, monkeypatch):
    """While it is waited for: else nobody knows why the proxy does not start."""
    monkeypatch.setattr("cacheproxy.plugin.files.SLOW_SECONDS", 0.0)
    waiting = "import sys, time\nwhile 'wait' not in sys.stderr.getvalue(): time.sleep(0.01)\n"
    path = write(waiting + TABLE)
    files(path)
    said = capsys.readouterr().err
    assert said.startswith(f"cacheproxy: plugin {path} is still being loaded")
    assert said.count("\n") == 1


def test_two_plugins_of_one_name_are_an_error_that_names_both(write, tmp_path):
    """Two files, or a file and an installed package."""
    (tmp_path / "other").mkdir()
    one, two = write(TABLE), write(TABLE, "other/rules.py")
    with pytest.raises(PluginError, match=rf"plugin {two}: {one} is also called 'rules'"):
        files(one, two)
    claude = write(TABLE, "claude-code.py")
    with pytest.raises(
        PluginError, match=r"cacheproxy-claude-code .* is also called 'claude-code'"
    ):
        Packages.load((), [str(claude)])


def test_a_file_named_twice_is_one_plugin(write):
    """As in two spellings of one setting."""
    path = write(TABLE)
    assert len(files(path, path)) == 1


def test_block_keeps_a_file_from_being_run(write):
    """By its name, as with a package."""
    path = str(write("raise RuntimeError"))
    (package,) = Packages().with_files([path], ["rules"])
    assert (package.blocked, package.rules) == (True, ())
    with pytest.raises(PluginError, match="block names no installed plugin: rulez"):
        Packages().with_files([], ["rulez"])


def test_a_file_that_others_may_write_is_loaded_with_a_warning(write):
    """What it says runs in the proxy; on some file systems nothing else can be had."""
    path = write(TABLE)
    assert load_file(path).warning is None
    path.chmod(0o646)
    assert load_file(path).warning == (
        f"every user of this machine may write {path}, which runs in the proxy: run chmod o-w on it"
    )


def test_only_a_file_whose_text_changed_is_run_again(write):
    """What another has learned since it was started stays."""
    one, two = write(TABLE), write(HOOKS, "two.py")
    before = files(one, two)
    write(TABLE.replace("00:00", "99:99"))
    after = before.with_files([str(one), str(two)])
    assert after[0].plugin is not before[0].plugin
    assert after[1].plugin is before[1].plugin
    assert edited(before, "12:34") == "y"  # those in force are what they were
    plugins = Plugins(TurningReactor())
    assert plugins.adopt(before) == ["rules", "two"]
    assert plugins.adopt(after) == ["rules"]
    assert plugins.adopt(after.with_files([str(two)])) == ["rules"]
    assert [package.name for package in plugins.packages] == ["two"]
