"""The settings, read from their three sources: the TOML file, the environment, the command line.

Errors in them are reported in plain words, translated from msgspec's.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import platformdirs

from cacheproxy.config import ENV_PREFIX, Config, ConfigError, RuleTable, options
from cacheproxy.core.kinds.base_url import server_root
from cacheproxy.core.privacy.origins import OriginError, origins
from cacheproxy.core.route.stamp import Stamp, StampError
from cacheproxy.tables import AlarmTable, RouteTable, TableError, UpstreamTable, check
from cacheproxy.words import meant

_GONE = {
    "pin_slots": "no longer exists: with llama-server's defaults a pinned conversation reuses "
    "nothing. Remove the setting; cacheproxy doctor names the setting of llama-server that keeps "
    "conversations apart, where one does",
    "workers": "no longer exists: one process serves a team. Remove the setting; docs/running.md "
    "shows how to run several proxies behind HAProxy or nginx",
}
"""Settings that were removed, each with the reason and the replacement."""
_BOTH = re.compile(r"^\s*upstream\s*=.*^\s*\[\[\s*upstream\s*\]\]", re.MULTILINE | re.DOTALL)
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "str | array": "text or a list of texts",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_NO_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
_EXPECTED = re.compile(
    r"Expected `(?P<kind>[^`]*)`(?: (?P<how>[<>]=?) (?P<bound>\S+))?(?:, got `(?P<got>[^`]*)`)?"
)
_HEADER = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]")


def explain(mistake: str) -> str:
    """Return ``mistake``, a parser's error message; for a removed option the reason instead."""
    for field, why in _GONE.items():
        option = "--" + field.replace("_", "-")
        if option in mistake:
            return f"{option} {why}"
    return mistake


def _variables() -> dict[str, str]:
    """Return the fields of Config by the names of their environment variables."""
    fields = [*(option.field for option in options()), *_GONE]
    return {ENV_PREFIX + field.upper(): field for field in fields}


def ignored(environ: Iterable[str], config: Config) -> Iterator[str]:
    """Yield a sentence for each variable that has our prefix, but is no setting.

    Variables that ``config`` names, for a key or a secret, are left out.
    """
    known = {*_variables(), ENV_PREFIX + "CONFIG", config.alarm.secret_env}
    known |= {table.key_env for table in config.upstreams}
    for name in sorted(environ):
        if name.startswith(ENV_PREFIX) and name not in known:
            yield f"{name} is ignored: it is not a setting{meant(name, known)}"


def default_file() -> Path:
    """Return the path of the user's config file, read unless another one is named."""
    return platformdirs.user_config_path("cacheproxy") / "config.toml"


def load(
    command_line: Mapping[str, Any],
    environ: Mapping[str, str],
    file: str | None = None,
    folder: str | None = None,
    text: str | None = None,
) -> Config:
    """Return the configuration; raises ConfigError.

    ``command_line``: the given values, text or bool, by field. ``file``: name of a file, which must
    exist; None: ``CACHEPROXY_CONFIG``, or the user's own file if it exists. ``folder``: start of
    relative paths of plugins, except those in the file, which start in its own folder; None: the
    working directory. ``text``: the file's text, if it was read already.
    """
    here = Path(folder or "")
    merged: dict[str, Any] = {}
    named = file or environ.get(ENV_PREFIX + "CONFIG")
    path = _expanded(named) if named else default_file()
    if text is not None or named or path.exists():
        values, text = _read(path, text)
        merged |= _located(_checked(values, _Source(str(path), str, text)), here / path.parent)
    given = {field: environ[name] for name, field in _variables().items() if environ.get(name)}
    merged |= _located(_checked(given, _ENVIRONMENT), here)
    merged |= _located(_checked(dict(command_line), _COMMAND_LINE), here)
    if "upstream" in merged and "upstreams" in merged:
        raise ConfigError(
            f"{path} has [[upstream]] tables, and one more upstream is given outside the file: "
            "remove one of the two"
        )
    config = msgspec.convert(merged, Config)
    return msgspec.structs.replace(config, upstream=server_root(config.servers[0].url))


def check_secrets(config: Config, environ: Mapping[str, str]) -> None:
    """Raise ConfigError if ``config`` names a variable that is not set, for a key or a secret.

    Called where these are sent: commands that send requests to the running proxy need none.
    """
    try:
        for table in config.upstreams:
            table.key(environ)
        config.alarm.secret(environ)
    except TableError as error:
        raise ConfigError(str(error)) from None


def _expanded(name: str, what: str = "the config file") -> Path:
    """Return the path ``name`` with ``~`` replaced; ``what``: its words in the ConfigError."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise ConfigError(f"cannot read {what} {name}: no such user") from None


def _located(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return ``values``, its paths of plugins made absolute; relative ones start in ``folder``."""
    if "plugin" in values:
        named = (_expanded(name, "the plugin") for name in values["plugin"])
        values["plugin"] = tuple(os.path.abspath(folder / path) for path in named)  # noqa: PTH100
    return values


def _read(path: Path, text: str | None) -> tuple[dict[str, Any], str]:
    """Return the file's values and text, ``text`` if it was read already; raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8") if text is None else text
        return tomllib.loads(text), text
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if _BOTH.search(text or ""):
            raise ConfigError(
                f"the config file {path} has both upstream and [[upstream]] tables: remove one of "
                "the two"
            ) from None
        raise ConfigError(f"the config file {path} is not valid TOML: {error}") from None


class _Source(NamedTuple):
    """A source of settings."""

    said: str  #: the source's name, for people
    spelled: Callable[[str], str]  #: returns a field's name as the source spells it
    text: str | None = None
    """The text of a file, whose values must have TOML's own types; None: not a file."""

    def wrong(self, mistake: MistakeError) -> ConfigError:
        """Return the error that names the place of ``mistake`` and the mistake."""
        sentence = mistake.said(self.spelled(mistake.key))
        if self.text is None:
            return ConfigError(sentence)
        line = mistake.line(self.text)
        return ConfigError(f"{self.said}{f', line {line}' if line else ''}: {sentence}")


_ENVIRONMENT = _Source("the environment", lambda field: ENV_PREFIX + field.upper())
_COMMAND_LINE = _Source("the command line", lambda field: "--" + field.replace("_", "-"))


def _checked(values: dict[str, Any], source: _Source) -> dict[str, Any]:
    """Return ``values``, changed in place, in the types of Config; raises ConfigError."""
    for field in _GONE.keys() & values.keys():
        raise ConfigError(f"{source.said}: {field} {_GONE[field]}")
    for option in options():
        value = values.get(option.field)
        if option.kind is tuple and isinstance(value, str):
            values[option.field] = [part.strip() for part in value.split(",") if part.strip()]
    listed = values.get("upstream")
    if isinstance(listed, list) and any(isinstance(table, dict) for table in listed):
        values["upstreams"] = values.pop("upstream")
    kinds: dict[str, type] = {
        "upstreams": UpstreamTable, "route": RouteTable, "rule": RuleTable
    }  # fmt: skip
    try:
        for field, kind in kinds.items():
            if isinstance(values.get(field), list):
                values[field] = tables(values[field], kind, field.removesuffix("s"))
        if "alarm" in values:
            values["alarm"] = _table(values["alarm"], AlarmTable, "alarm")
        config = converted(values, Config, strict=source.text is not None)
        check(config.upstreams, config.route)
        config.alarm.check()
        Stamp(config.session_header)
        origins(config.allow_origin)
    except MistakeError as error:
        raise source.wrong(error) from None
    except TableError as error:
        raise ConfigError(f"{source.said}: {error}") from None
    except StampError as error:
        wrong = MistakeError("session_header", f"cannot be used: {error}")
        raise source.wrong(wrong) from None
    except OriginError as error:
        raise source.wrong(MistakeError("allow_origin", str(error))) from None
    return {name: getattr(config, name) for name in values}


class MistakeError(ValueError):
    """One wrong setting.

    ``key``: its name, "" if the table itself is wrong; ``what``: the mistake, in words that follow
    the name. ``table``: name of its TOML table, "" for none; ``number``: the table's number, from
    0, None for a table that is no array.
    """

    def __init__(self, key: str, what: str, table: str = "", number: int | None = 0) -> None:
        super().__init__(key, what, table, number)
        self.key, self.what, self.table, self.number = key, what, table, number

    def __str__(self) -> str:
        return self.said(self.key)

    def said(self, name: str) -> str:
        """Return the sentence; ``name``: the key as its source spells it."""
        inside = f"[{self.table}]: " if self.table else ""
        if self.table and self.number is not None:
            inside = f"[[{self.table}]] number {self.number + 1}: "
        return inside + (f"{name} {self.what}" if self.key else self.what)

    def line(self, text: str) -> int | None:
        """Return the mistake's line in ``text``, a TOML file, counted from 1; None if not found."""
        key = re.compile(rf"\s*[\"']?{re.escape(self.key)}[\"']?\s*=")
        table, number = "", -1 if self.table else 0
        for count, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = header[1]
                number += table == self.table
            if (table, number) != (self.table, self.number or 0):
                continue
            if key.match(line) if self.key else header:
                return count
        return None


def converted(values: Any, kind: type[_Struct], *, strict: bool = True) -> _Struct:
    """Return ``values`` as ``kind``; raises MistakeError. ``strict``: text is no number."""
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _mistake(str(error), kind) from None


def tables(values: Sequence[Any], kind: type[_Struct], name: str) -> tuple[_Struct, ...]:
    """Return the ``[[name]]`` tables of a file, each as ``kind``; raises MistakeError."""
    return tuple(_table(each, kind, name, number) for number, each in enumerate(values))


def _table(values: Any, kind: type[_Struct], name: str, number: int | None = None) -> _Struct:
    """Return a ``[name]`` table of a file, or one of several, as ``kind``; raises MistakeError."""
    try:
        return converted(values, kind)
    except MistakeError as error:
        raise MistakeError(error.key, error.what, name, number) from None


def _mistake(error: str, kind: type[msgspec.Struct]) -> MistakeError:
    """Return msgspec's message ``error`` on values of the type ``kind`` as a MistakeError."""
    text, _, place = error.partition(" - at `$.")
    key = re.split(r"[.\[`]", place)[0]
    fields = kind.__struct_fields__
    if found := _NO_FIELD.match(text):
        if found[1] == "missing required":
            return MistakeError("", f"{found[2]} is missing")
        return MistakeError(found[2], f"is not a setting{meant(found[2], fields)}")
    if words := _words(get_type_hints(kind).get(key)):
        return MistakeError(key, f"must be one of {', '.join(words)}")
    if found := _EXPECTED.match(text):
        return MistakeError(key, f"must be {_kind_words(found)}")
    return MistakeError(key, f"cannot be used: {text}")


def _kind_words(found: re.Match[str]) -> str:
    """Return the type and bounds that a value must have, in words; ``found``: by _EXPECTED."""
    if "matching regex" in found.string:  # the token's pattern
        return "plain ASCII without spaces"
    kind = found["kind"].removesuffix(" | null")
    said, got = _KINDS.get(kind, kind), _KINDS.get(found["got"] or "")
    if found["how"]:
        return f"{said} {_BOUNDS[found['how']]} {found['bound'].removesuffix('.0')}"
    return f"{said}, not {got}" if got else said


def _words(hint: Any) -> Collection[str]:
    """Return the words that a setting of type ``hint`` may be; () if these are not limited."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(each.value) for each in hint]
    if get_origin(hint) is Literal:
        return [word or repr(word) for word in get_args(hint)]
    inner = (_words(each) for each in get_args(hint))
    return next(filter(None, inner), ())
