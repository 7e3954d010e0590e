"""The settings: one table, three sources, and every mistake named with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from cacheproxy import sources
from cacheproxy.config import Config, ConfigError, options
from cacheproxy.sources import check_secrets, load
from tests import transcript


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


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """A few settings."""

    name: str = ""
    above: Annotated[float, Meta(gt=0)] = 1.0
    few: Annotated[int, Meta(le=10)] | None = None
    names: tuple[str, ...] = ()


def mistake(values, tables=None):
    try:
        if tables is None:
            return sources.converted(values, Table)
        return sources.tables(values, Table, tables)
    except sources.MistakeError as error:
        return str(error)


def changed(config):
    """The settings that are not the defaults."""
    return {
        name: getattr(config, name)
        for name in config.__struct_fields__
        if getattr(config, name) != getattr(Config(), name)
    }


def test_what_is_read_and_what_is_refused(toml):
    def read(text=None, environ=(), show=changed, **given):
        file = None if text is None else toml(text)
        try:
            config = load(given, dict(environ), file)
            check_secrets(config, dict(environ))
            return show(config)
        except ConfigError as error:
            said = str(error)
            assert "\n" not in said
            assert "kanarien" not in said
            return said.replace(str(file), "FILE").partition(" TOML:")[0]

    transcript.holds("settings.txt", globals() | {"read": read})


def test_the_table_has_every_field_but_the_tables():
    """Each with a sentence, a flag and a default."""
    table = {option.field: option for option in options()}
    assert set(table) == set(Config.__struct_fields__) - {"rule", "route", "upstreams", "alarm"}
    bare = [field for field, option in table.items() if not option.help]
    assert not bare, f"cacheproxy/config.py: say in _row(…) what these are for: {bare}"
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


def test_a_named_file_wins_over_the_environments_over_the_users_own(toml, tmp_path, monkeypatch):
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


def wrong(environ=(), file=None):
    """The line that names a file that cannot be read."""
    with pytest.raises(ConfigError) as caught:
        load({}, dict(environ), file)
    return str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    assert "No such file" in wrong((), str(tmp_path / "none.toml"))
    assert "No such file" in wrong({"CACHEPROXY_CONFIG": str(tmp_path / "none.toml")})
    assert "Is a directory" in wrong((), str(tmp_path))
    assert "~nobody-of-this-name" in wrong((), "~nobody-of-this-name/x.toml")


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
