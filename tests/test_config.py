"""The settings: one table, three sources, and every mistake named with its place."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from cacheproxy import sources
from cacheproxy.config import Config, ConfigError, options
from cacheproxy.core.prompt.client import Client
from cacheproxy.sources import load


@pytest.fixture(autouse=True)
def _no_file_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "default_file", lambda: tmp_path / "own" / "config.toml")


@pytest.fixture
def toml(tmp_path):
    """Write a config file; return its path as text."""

    def write(text):
        file = tmp_path / "given.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(file)

    return write


def wrong(command_line=(), environ=(), file=None):
    """The one line that names the mistake."""
    with pytest.raises(ConfigError) as caught:
        load(dict(command_line), dict(environ), file)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_any_source_there_are_defaults():
    """Loopback, and no editing of a vendor's API."""
    found = load({}, {})
    assert found == Config()
    assert found.interface == "127.0.0.1"
    assert found.edit_remote is False
    assert found.rule == ()


def test_the_table_has_every_field_but_the_tables():
    """Each with a sentence, a flag and a default."""
    table = {option.field: option for option in options()}
    assert set(table) == set(Config.__struct_fields__) - {"rule", "route", "upstreams", "alarm"}
    assert all(option.help for option in table.values())
    assert table["edit_remote"].flag == "edit-remote"
    assert table["edit_remote"].kind is bool
    assert table["enable"].kind is tuple
    assert table["port"].default == Config().port


@pytest.mark.parametrize("option", list(options()), ids=lambda option: option.field)
def test_every_option_may_stand_in_all_three_sources(option, toml, tmp_path, monkeypatch):
    """Text on the command line and in the environment; TOML's own types in the file."""
    a, b, c = names = [("x://" if option.field == "allow_origin" else "") + it for it in "abc"]
    texts = {str: "http://x", int: "70", float: "1.5", bool: "true", tuple: f"{a}, {b},,{c} "}
    values = {str: "http://x", int: 70, float: 1.5, bool: True, tuple: tuple(names)}
    inside = {str: '"http://x"', int: "70", float: "1.5", bool: "true", tuple: json.dumps(names)}
    if option.choices:
        texts[str] = values[str] = option.choices[-1]
        inside[str] = f'"{option.choices[-1]}"'
    expected = values[option.kind]
    monkeypatch.chdir(tmp_path)  # where the file lies, too
    if option.is_file_list:
        expected = tuple(str(tmp_path / name) for name in expected)
    given = True if option.kind is bool else texts[option.kind]
    environ = {"CACHEPROXY_" + option.field.upper(): texts[option.kind]}
    file = toml(f"{option.field} = {inside[option.kind]}")
    for found in (load({option.field: given}, {}), load({}, environ), load({}, {}, file)):
        assert getattr(found, option.field) == expected
        assert msgspec.structs.replace(found, **{option.field: option.default}) == Config()


def test_the_command_line_wins_over_the_environment_over_the_file(toml):
    """Setting by setting."""
    file = toml('port = 1\nmax_body = 2\nupstream = "http://file"')
    environ = {"CACHEPROXY_PORT": "10", "CACHEPROXY_MAX_BODY": "20"}
    found = load({"port": "100"}, environ, file)
    assert (found.port, found.max_body, found.upstream) == (100, 20, "http://file")
    assert load({}, environ | {"CACHEPROXY_CONFIG": file}).port == 10
    assert load({}, {"CACHEPROXY_CONFIG": file}).port == 1


def test_a_named_file_wins_over_the_environments_over_the_users_own(toml, tmp_path, monkeypatch):
    """One file is read, not several."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.toml").write_text("port = 1")
    (tmp_path / "environ.toml").write_text("port = 2")
    environ = {"CACHEPROXY_CONFIG": str(tmp_path / "environ.toml")}
    assert load({}, {}).port == 1
    assert load({}, environ).port == 2
    assert load({}, environ, toml("port = 3")).port == 3
    assert load({}, environ, toml("max_body = 3")).port == Config().port
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load({}, {}, "~/environ.toml").port == 2


@pytest.mark.parametrize("given", ["http://h:1/v1", "http://h:1/v1/", "h:1", "h:1/v1"])
def test_the_upstream_is_its_root(given, toml):
    """Whoever reads the settings asks for pages beside ``/v1``."""
    file = toml(f'upstream = "{given}"')
    assert load({"upstream": given}, {}).upstream == "http://h:1"
    assert load({}, {"CACHEPROXY_UPSTREAM": given}).upstream == "http://h:1"
    assert load({}, {}, file).upstream == "http://h:1"


def test_an_empty_variable_is_none():
    """As if it were not set."""
    assert load({}, {"CACHEPROXY_PORT": "", "CACHEPROXY_CONFIG": ""}) == Config()
    assert load({}, {"CACHEPROXY_ENABLE": " , "}).enable == ()


def test_variables_of_others_are_not_ours():
    """Nor is one that names no option."""
    assert load({}, {"PORT": "1", "CACHEPROXY_RULE": "x", "CACHEPROXY_NOTHING": "x"}) == Config()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("port", "abc"),
        ("port", "-1"),
        ("port", "65536"),
        ("port", "80.5"),
        ("max_body", "0"),
        ("max_body", "5000"),
        ("memory", "15"),
        ("connect_timeout", "0"),
        ("connect_timeout", "-1"),
        ("connect_timeout", "nan"),
        ("connect_timeout", "inf"),
        ("connect_timeout", "1e300"),
        ("connect_timeout", "soon"),
        ("session_header", "X-Session-ID,Host"),
        ("session_header", "X Session"),
        ("allow_origin", "http://localhost:3000,*"),
    ],
)
def test_a_bad_value_is_named_with_its_source_and_place(field, value, toml):
    """In whichever source it stands."""
    assert wrong({field: value}).startswith(f"--{field.replace('_', '-')} ")
    environ = {"CACHEPROXY_" + field.upper(): value}
    assert wrong((), environ).startswith(f"CACHEPROXY_{field.upper()} ")
    file = toml(f'{field} = "{value}"')
    assert wrong((), (), file).startswith(f"{file}, line 1: {field} ")


def test_a_bad_flag_in_the_environment():
    """``true`` and ``1`` are yes, ``false`` and ``0`` are no."""
    for text, value in (("1", True), ("true", True), ("0", False), ("false", False)):
        assert load({}, {"CACHEPROXY_VERBOSE": text}).verbose is value
    assert wrong((), {"CACHEPROXY_VERBOSE": "maybe"}).startswith("CACHEPROXY_VERBOSE must be true")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("port = ", "is not valid TOML:"),
        ("[[rule]\n", "is not valid TOML:"),
        (b"upstream = '\xff'", "is not valid TOML:"),
        ("ports = 1", "line 1: ports is not a setting. Did you mean port?"),
        ('upstream = ["x"]', "upstream must be text, not a list"),
        ("verbose = 1", "verbose must be true or false, not a whole number"),
        ("port = true", "port must be a whole number, not true or false"),
        ("rule = 1", "rule must be a list, not a whole number"),
        ("[[rule]]", "line 1: [[rule]] number 1: name is missing"),
        ('[[rule]]\nname = "x"\nwhere = "user"', "line 1: [[rule]] number 1: pattern is missing"),
        (
            '[[rule]]\nname = "x"\nwhere = "user"\npattern = "x"\nwhich = 1',
            "line 5: [[rule]] number 1: which is not a setting",
        ),
        (
            '[[rule]]\nname = "x"\nwhere = 7\npattern = "x"',
            "line 3: [[rule]] number 1: where must be text or a list of texts",
        ),
    ],
)
def test_a_bad_file_is_named_with_its_place(text, names, toml):
    """Which file, which key, what is wrong with it."""
    file = toml(text)
    message = wrong((), (), file)
    assert file in message
    assert names in message


@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [
        ("pin_slots", "true", "--slot-prompt-similarity"),
        ("pin_slots", "false", "--slot-prompt-similarity"),
        ("workers", "2", "docs/running.md"),
    ],
)
def test_a_setting_that_is_gone_is_named_with_the_reason(toml, field, value, instead):
    """Wherever it still stands, and whatever it says."""
    file = toml(f"port = 1\n{field} = {value}")
    for message in (wrong((), (), file), wrong((), {f"CACHEPROXY_{field.upper()}": value})):
        assert f"{field} no longer exists: " in message
        assert instead in message
    assert wrong((), (), file).startswith(f"{file}: ")


def test_a_file_that_cannot_be_read(tmp_path):
    """A named one must be there."""
    assert "No such file" in wrong((), (), str(tmp_path / "none.toml"))
    assert "No such file" in wrong((), {"CACHEPROXY_CONFIG": str(tmp_path / "none.toml")})
    assert "Is a directory" in wrong((), (), str(tmp_path))
    assert "~nobody-of-this-name" in wrong((), (), "~nobody-of-this-name/x.toml")


RULE = """[[rule]]
name = "{name}"
where = {where}
pattern = '{pattern}'
{more}
"""


def rules(toml, **fields):
    text = RULE.format(
        **{"name": "x", "where": '"user"', "pattern": "x", "more": "replacement = ''"} | fields
    )
    return load({}, {}, toml(text)).rules()


def test_a_rule_of_the_file(toml):
    """All fields of Rule, in TOML's types."""
    more = 'replacement = "y"\nwhy = "z"\ndefault = false\npin = true\nliterals = ["x"]'
    more += '\nclient = "codex"'
    (rule,) = rules(toml, where='["/system", "user"]', more=more)
    assert (rule.name, rule.where, rule.pattern) == ("x", ("/system", "user"), "x")
    assert (rule.replacement, rule.why, rule.default, rule.pin) == ("y", "z", False, True)
    assert (rule.literals, rule.client) == (("x",), Client("codex"))


def test_what_a_rule_of_the_file_is_by_default(toml):
    """For all clients, on, without literals; what it puts there has to be said."""
    (rule,) = rules(toml)
    assert (rule.client, rule.default, rule.literals, rule.why) == (None, True, (), "")
    assert (rule.replacement, rule.pin) == ("", False)
    (rule,) = rules(toml, more="pin = true\nclient = '*'")
    assert (rule.replacement, rule.pin, rule.client) == (None, True, None)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"name": "Not A Name"}, "'Not A Name'"),
        ({"name": ""}, "''"),
        ({"pattern": "(unclosed"}, "bad pattern"),
        ({"where": '"nowhere"'}, "nowhere"),
        ({"where": "[]"}, "'where'"),
        ({"more": r"replacement = '\9'"}, "bad replacement"),
        ({"more": "replacement = 'xx'"}, "the rule would find the replacement"),
        ({"more": ""}, "say what a match becomes: replacement"),
        ({"more": "pin = false"}, "or pin = true"),
        ({"more": "pin = true\nclient = 'Claude Code'"}, "lower-case word"),
        ({"more": "pin = true\nclient = ''"}, "lower-case word"),
    ],
)
def test_a_rule_that_cannot_work(toml, fields, names):
    """The message names the rule, and what is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        rules(toml, **fields)
    assert str(caught.value).startswith("in the config file: rule ")
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_file_is_utf_8_whatever_the_locale(toml):
    """TOML says so."""
    file = toml('[[rule]]\nname = "x"\nwhere = "user"\npattern = "é→"\nreplacement = ""\nwhy = "ü"')
    program = (
        "from cacheproxy.sources import load; import sys;"
        "assert load({}, {}, sys.argv[1]).rules()[0].pattern == '\\xe9\\u2192'"
    )
    environ = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", program, file], env=environ, check=True, timeout=120)


def test_one_of_a_few_words(toml):
    """The others are named."""
    with pytest.raises(ConfigError, match="dialect must be one of auto, anthropic, openai"):
        load({}, {}, toml('dialect = "x"'))


def test_a_plugins_path_begins_where_it_is_written(toml, tmp_path, monkeypatch):
    """In the config file: in its folder. Elsewhere: in the first working directory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    file = toml('plugin = ["a.py", "/b.py"]')
    assert load({}, {}, file).plugin == (str(tmp_path / "a.py"), "/b.py")
    assert load({"plugin": ["a,b.py"]}, {}, file).plugin == (str(elsewhere / "a,b.py"),)
    assert load({}, {"CACHEPROXY_PLUGIN": "../a.py,b.py"}, file, "/x/y").plugin == (
        "/x/a.py",
        "/x/y/b.py",
    )
    with pytest.raises(ConfigError, match=r"cannot read the plugin ~nobody-here/a.*no such user"):
        load({"plugin": ["~nobody-here/a.py"]}, {})
