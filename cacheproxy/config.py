"""The configuration: one frozen table, filled from a TOML file, the environment and options.

The fields of ``Config`` are the table: an option ``edit_remote`` is ``--edit-remote`` on the
command line, ``CACHEPROXY_EDIT_REMOTE`` in the environment and ``edit_remote`` in the file.
The command line wins over the environment, which wins over the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import platformdirs
from msgspec import Meta

from cacheproxy.core.prompt.client import EVERY, Client, ClientError
from cacheproxy.core.route.stamp import Stamp, StampError
from cacheproxy.core.rules.normalizer import RuleError
from cacheproxy.core.rules.rule import Rule
from cacheproxy.core.server.base_url import server_root
from cacheproxy.tables import RouteTable, TableError, UpstreamTable, check, converted

ENV_PREFIX = "CACHEPROXY_"
_GONE = {
    "pin_slots": "is gone: on llama-server's defaults a pinned conversation reuses nothing. "
    "Take it out; llama-server --slot-prompt-similarity 0.5 does what it was for",
    "workers": "is gone: one process serves a team. Take it out; docs/running.md shows how several "
    "proxies run behind HAProxy or nginx",
}
"""Settings there were, and why there are none any more."""
_BOTH = re.compile(r"^\s*upstream\s*=.*^\s*\[\[\s*upstream\s*\]\]", re.MULTILINE | re.DOTALL)
_Names = tuple[str, ...]


def _row(description: str, **bounds: Any) -> Meta:
    """Return what the table says of a setting: one line for people, and its bounds."""
    return Meta(description=description, **bounds)


class ConfigError(ValueError):
    """A setting that cannot be used; the message says where it stands and how to mend it."""


class RuleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ``[[rule]]`` of the file: the fields of cacheproxy.core.rules.rule.Rule.

    ``client``: the name of one (cacheproxy.core.prompt.client), or ``*`` for all.
    """

    name: str
    where: str | tuple[str, ...]
    pattern: str
    replacement: str | None = None
    why: str = ""
    pin: bool = False
    note: str | None = None
    default: bool = True
    literals: tuple[str, ...] = ()
    client: str = EVERY

    def rule(self) -> Rule:
        """Return it as a Rule; raises RuleError."""
        try:
            client = None if self.client == EVERY else Client(self.client)
        except ClientError as error:
            raise RuleError(f"rule {self.name!r}: {error}") from None
        return Rule(**msgspec.structs.asdict(self) | {"client": client})


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings. Each field's description says its unit."""

    upstream: Annotated[
        str, _row("URL of the model server; a /v1 at its end makes no difference")
    ] = "http://localhost:8080"
    port: Annotated[int, _row("port to listen on; 0 takes a free one", ge=0, le=65535)] = 8081
    interface: Annotated[str, _row("address to listen on")] = "127.0.0.1"
    listen: Annotated[str, _row("Twisted endpoint to listen on, instead of port and interface")] = (
        ""
    )
    enable: Annotated[_Names, _row("rules to switch on, joined by commas")] = ()
    disable: Annotated[_Names, _row("rules to switch off, joined by commas")] = ()
    block: Annotated[_Names, _row("plugins not to load, joined by commas")] = ()
    plugin: Annotated[_Names, _row("Python file with hooks or a table of rules; repeatable")] = ()
    dialect: Annotated[
        Literal["auto", "anthropic", "openai"],
        _row("API of the upstream: anthropic, openai, or auto to find out"),
    ] = "auto"
    placement: Annotated[
        Literal["auto", "quiet", "user", "off"],
        _row(
            "send late system messages as user messages where the server cannot take "
            "them: auto, quiet (no test prompts), user (always), off"
        ),
    ] = "auto"
    keep_thinking: Annotated[
        Literal["auto", "yes", "no"],
        _row(
            "keep the reasoning of earlier turns in the prompt where the chat template can: auto "
            "(where the memory cannot rewind and the client sends it back), yes, no"
        ),
    ] = "auto"
    edit_remote: Annotated[
        bool, _row("edit requests even if the upstream is not a local server")
    ] = False
    session_header: Annotated[
        _Names,
        _row("headers to send with a hash of the conversation, for a router before the servers"),
    ] = ()
    allow_host: Annotated[
        _Names,
        _row("host names besides localhost that clients may use, joined by commas"),
    ] = ()
    token: Annotated[
        str,
        _row("secret that clients must send; better set in CACHEPROXY_TOKEN", pattern=r"^[!-~]*\Z"),
    ] = ""
    max_body: Annotated[int, _row("largest request body, in MiB", ge=1, le=4096)] = 64
    max_head: Annotated[int, _row("largest request headers in all, in KiB", ge=1, le=1024)] = 64
    max_target: Annotated[int, _row("longest request target, in KiB", ge=1, le=1024)] = 32
    max_connections: Annotated[int, _row("most client connections at a time", ge=1, le=65535)] = (
        4096
    )
    idle_timeout: Annotated[
        float, _row("seconds between requests, and between pieces of a body", gt=0, le=86400)
    ] = 75.0
    head_timeout: Annotated[
        float, _row("seconds in which all headers of a request must arrive", gt=0, le=3600)
    ] = 30.0
    connect_timeout: Annotated[
        float, _row("seconds to wait for a connection to the upstream", gt=0, le=3600)
    ] = 2.0
    upstream_silence: Annotated[
        float, _row("most seconds without data from the upstream; 0: no limit", ge=0, le=86400)
    ] = 3600.0
    ping_after: Annotated[
        float,
        _row(
            "seconds of silence before a streaming client gets a ping; 0: no pings", ge=0, le=86400
        ),
    ] = 15.0
    grace: Annotated[
        float, _row("seconds that open answers may still take after a stop signal", ge=0, le=86400)
    ] = 30.0
    capture: Annotated[str, _row("folder to write raw exchanges to, prompts included")] = ""
    state_dir: Annotated[
        str, _row("folder for the lifetime totals; user: the default folder, none: keep none")
    ] = "user"
    poll: Annotated[
        float, _row("seconds between two reads of the upstream's counters; 0: never", ge=0, le=3600)
    ] = 10.0
    otel: Annotated[
        bool, _row("send OpenTelemetry spans as the OTEL_ variables say (needs the extra otel)")
    ] = False
    verbose: Annotated[bool, _row("log body sizes and each edit")] = False
    rule: tuple[RuleTable, ...] = ()
    upstreams: tuple[UpstreamTable, ...] = ()
    """The file's ``[[upstream]]`` tables; ``upstream`` is the first one's URL then."""
    route: tuple[RouteTable, ...] = ()

    @property
    def servers(self) -> tuple[UpstreamTable, ...]:
        """All upstreams; without tables there is one, without a name."""
        return self.upstreams or (UpstreamTable("", self.upstream),)

    def token_header(self) -> dict[str, str]:
        """Return the header by which our own commands get in."""
        return {"X-Cacheproxy-Token": self.token} if self.token else {}

    def rules(self) -> list[Rule]:
        """Return the file's ``[[rule]]`` tables as rules; raises ConfigError."""
        try:
            return [table.rule() for table in self.rule]
        except RuleError as error:
            raise ConfigError(f"in the config file: {error}") from None


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table, as a command line needs it; ``choices`` where there are only these."""

    field: str
    kind: type
    default: Any
    help: str
    choices: _Names = ()

    @property
    def flag(self) -> str:
        """The option's name on the command line, without its dashes."""
        return self.field.replace("_", "-")

    @property
    def shown(self) -> str:
        """Its default, for people."""
        text = ",".join(self.default) if isinstance(self.default, tuple) else str(self.default)
        return text or "none"

    @property
    def is_file_list(self) -> bool:
        """Whether it may be given several times, each time with one file's name."""
        return self.field == "plugin"


def options() -> Iterator[Option]:
    """Yield the settings that have an option and an environment variable: all but the tables."""
    hints = get_type_hints(Config, include_extras=True)
    for info in msgspec.structs.fields(Config):
        kind, *extras = get_args(hints[info.name])
        meta = next((extra for extra in extras if isinstance(extra, Meta)), None)
        if meta is not None:
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            known = str if choices else get_origin(kind) or kind
            yield Option(info.name, known, info.default, meta.description or "", choices)


def explain(mistake: str) -> str:
    """Return ``mistake``, or the reason if it names an option that is gone.

    ``mistake``: what a parser says of a command line that it cannot read.
    """
    for field, why in _GONE.items():
        option = "--" + field.replace("_", "-")
        if option in mistake:
            return f"{option} {why}"
    return mistake


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
        found = _checked(_read(path), str(path), strict=True)
        merged |= _located(found, here / path.parent)
    names = {ENV_PREFIX + option.field.upper(): option.field for option in options()}
    names |= {ENV_PREFIX + field.upper(): field for field in _GONE}
    given = {field: environ[name] for name, field in names.items() if environ.get(name)}
    merged |= _located(_checked(given, "the environment", strict=False), here)
    merged |= _located(_checked(dict(command_line), "the command line", strict=False), here)
    if "upstream" in merged and "upstreams" in merged:
        raise ConfigError(
            f"there are [[upstream]] tables in {path}, and one upstream is given besides: take "
            "either out"
        )
    config = msgspec.convert(merged, Config)
    try:
        for table in config.upstreams:
            table.key(environ)
    except TableError as error:
        raise ConfigError(str(error)) from None
    if config.upstreams:
        return msgspec.structs.replace(config, upstream=server_root(config.upstreams[0].url))
    return msgspec.structs.replace(config, upstream=server_root(config.upstream))


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


def _read(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if _BOTH.search(text):
            raise ConfigError(
                f"the config file {path} has upstream and [[upstream]] tables: take either out"
            ) from None
        raise ConfigError(f"the config file {path} is not TOML: {error}") from None


def _checked(values: dict[str, Any], source: str, *, strict: bool) -> dict[str, Any]:
    """Return ``values`` with texts turned into what the table says, or name the wrong one."""
    for field in _GONE.keys() & values.keys():
        raise ConfigError(f"{source}: {field} {_GONE[field]}")
    for option in options():
        value = values.get(option.field)
        if option.kind is tuple and isinstance(value, str):
            values[option.field] = [part.strip() for part in value.split(",") if part.strip()]
    tables = values.get("upstream")
    if isinstance(tables, list) and any(isinstance(table, dict) for table in tables):
        values["upstreams"] = values.pop("upstream")
    try:
        for field, kind in (("upstreams", UpstreamTable), ("route", RouteTable)):
            if isinstance(values.get(field), list):
                values[field] = converted(values[field], kind)
        check(values.get("upstreams", ()), values.get("route", ()))
    except TableError as error:
        raise ConfigError(f"{source}: {error}") from None
    try:
        config = msgspec.convert(values, Config, strict=strict)
    except msgspec.ValidationError as error:
        wrong, _, place = str(error).partition(" - at `$.")
        where = place.rstrip("`").replace("...", "")
        choices = next((one.choices for one in options() if one.field == where), ())
        wrong = f"Expected one of {', '.join(choices)}" if choices else wrong
        raise ConfigError(f"{source}: {where + ': ' if where else ''}{wrong}") from None
    try:
        Stamp(config.session_header)
    except StampError as error:
        raise ConfigError(f"{source}: session_header: {error}") from None
    return {name: getattr(config, name) for name in values}
