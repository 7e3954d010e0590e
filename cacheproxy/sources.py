"""The settings, read from their three sources: the TOML file, the environment, the command line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import platformdirs

from cacheproxy import mistakes
from cacheproxy.config import ENV_PREFIX, Config, ConfigError, RuleTable, options
from cacheproxy.core.privacy.origins import OriginError, origins
from cacheproxy.core.route.stamp import Stamp, StampError
from cacheproxy.core.servers.base_url import server_root
from cacheproxy.tables import AlarmTable, RouteTable, TableError, UpstreamTable, check

_GONE = {
    "pin_slots": "no longer exists: with llama-server's defaults a pinned conversation reuses "
    "nothing. Remove the setting, and start llama-server with "
    "--slot-prompt-similarity 0.5 instead",
    "workers": "no longer exists: one process serves a team. Remove the setting; docs/running.md "
    "shows how to run several proxies behind HAProxy or nginx",
}
"""Settings there were, and why there are none any more."""
_BOTH = re.compile(r"^\s*upstream\s*=.*^\s*\[\[\s*upstream\s*\]\]", re.MULTILINE | re.DOTALL)


def explain(mistake: str) -> str:
    """Return ``mistake``, or the reason if it names an option that is gone.

    ``mistake``: what a parser says of a command line that it cannot read.
    """
    for field, why in _GONE.items():
        option = "--" + field.replace("_", "-")
        if option in mistake:
            return f"{option} {why}"
    return mistake


def _variables() -> dict[str, str]:
    """Return the names of our environment variables, with their fields."""
    fields = [*(option.field for option in options()), *_GONE]
    return {ENV_PREFIX + field.upper(): field for field in fields}


def ignored(environ: Iterable[str], config: Config) -> Iterator[str]:
    """Yield a sentence for each variable that is spelled like one of ours, but is none.

    Nor one that ``config`` names, for a key or a secret.
    """
    known = {*_variables(), ENV_PREFIX + "CONFIG", config.alarm.secret_env}
    known |= {table.key_env for table in config.upstreams}
    for name in sorted(environ):
        if name.startswith(ENV_PREFIX) and name not in known:
            yield f"{name} is ignored: it is not a setting{mistakes.meant(name, known)}"


def default_file() -> Path:
    """Return where the user's config file is looked for unless one is named."""
    return platformdirs.user_config_path("cacheproxy") / "config.toml"


def load(
    command_line: Mapping[str, Any],
    environ: Mapping[str, str],
    file: str | None = None,
    folder: str | None = None,
) -> Config:
    """Return the configuration; raises ConfigError.

    ``command_line``: field names with what was given, text or bool. ``file``: a named file must
    exist; without one, ``CACHEPROXY_CONFIG`` or the user's own file is read if it is there.
    ``folder``: where the paths of plugins begin that the file does not name; None: the working
    directory. Those in the file begin in its own folder.
    """
    here = Path(folder or "")
    merged: dict[str, Any] = {}
    named = file or environ.get(ENV_PREFIX + "CONFIG")
    path = _expanded(named) if named else default_file()
    if named or path.exists():
        values, text = _read(path)
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
    if config.upstreams:
        return msgspec.structs.replace(config, upstream=server_root(config.upstreams[0].url))
    return msgspec.structs.replace(config, upstream=server_root(config.upstream))


def check_secrets(config: Config, environ: Mapping[str, str]) -> None:
    """Raise ConfigError where ``config`` names a variable that is not set, for a key or a secret.

    For who sends them: commands that ask the running proxy need none.
    """
    try:
        for table in config.upstreams:
            table.key(environ)
        config.alarm.secret(environ)
    except TableError as error:
        raise ConfigError(str(error)) from None


def _expanded(name: str, what: str = "the config file") -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise ConfigError(f"cannot read {what} {name}: no such user") from None


def _located(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return ``values`` with plugins as absolute paths, which begin in ``folder``."""
    if "plugin" in values:
        named = (_expanded(name, "the plugin") for name in values["plugin"])
        values["plugin"] = tuple(os.path.abspath(folder / path) for path in named)  # noqa: PTH100
    return values


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """Return the file's values, and its text."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), text
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if _BOTH.search(text):
            raise ConfigError(
                f"the config file {path} has both upstream and [[upstream]] tables: remove one of "
                "the two"
            ) from None
        raise ConfigError(f"the config file {path} is not valid TOML: {error}") from None


class _Source(NamedTuple):
    """Where settings come from."""

    said: str  #: its name, for people
    spelled: Callable[[str], str]  #: returns a field's name as it is written there
    text: str | None = None
    """Of a file, where TOML's own types are asked for."""

    def wrong(self, mistake: mistakes.Mistake) -> ConfigError:
        """Return the error that names the place, and what is wrong there."""
        sentence = mistake.said(self.spelled(mistake.key))
        if self.text is None:
            return ConfigError(sentence)
        line = mistake.line(self.text)
        return ConfigError(f"{self.said}{f', line {line}' if line else ''}: {sentence}")


_ENVIRONMENT = _Source("the environment", lambda field: ENV_PREFIX + field.upper())
_COMMAND_LINE = _Source("the command line", lambda field: "--" + field.replace("_", "-"))


def _checked(values: dict[str, Any], source: _Source) -> dict[str, Any]:
    """Return ``values`` with texts turned into what the table says, or name the wrong one."""
    for field in _GONE.keys() & values.keys():
        raise ConfigError(f"{source.said}: {field} {_GONE[field]}")
    for option in options():
        value = values.get(option.field)
        if option.kind is tuple and isinstance(value, str):
            values[option.field] = [part.strip() for part in value.split(",") if part.strip()]
    tables = values.get("upstream")
    if isinstance(tables, list) and any(isinstance(table, dict) for table in tables):
        values["upstreams"] = values.pop("upstream")
    kinds: dict[str, type] = {
        "upstreams": UpstreamTable, "route": RouteTable, "rule": RuleTable
    }  # fmt: skip
    try:
        for field, kind in kinds.items():
            if isinstance(values.get(field), list):
                values[field] = mistakes.tables(values[field], kind, field.removesuffix("s"))
        if "alarm" in values:
            values["alarm"] = mistakes.table(values["alarm"], AlarmTable, "alarm")
        config = mistakes.converted(values, Config, strict=source.text is not None)
        check(config.upstreams, config.route)
        config.alarm.check()
        Stamp(config.session_header)
        origins(config.allow_origin)
    except mistakes.MistakeError as error:
        raise source.wrong(error.mistake) from None
    except TableError as error:
        raise ConfigError(f"{source.said}: {error}") from None
    except StampError as error:
        mistake = mistakes.Mistake("session_header", f"cannot be used: {error}")
        raise source.wrong(mistake) from None
    except OriginError as error:
        raise source.wrong(mistakes.Mistake("allow_origin", str(error))) from None
    return {name: getattr(config, name) for name in values}
