"""The configuration: one frozen table, filled from a TOML file, the environment and options.

The fields of ``Config`` are the table: an option ``edit_remote`` is ``--edit-remote`` on the
command line, ``CACHEPROXY_EDIT_REMOTE`` in the environment and ``edit_remote`` in the file.
The command line wins over the environment, which wins over the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from cacheproxy.core.prompt.client import EVERY, Client, ClientError
from cacheproxy.core.rules.checks import RuleError
from cacheproxy.core.rules.rule import Rule
from cacheproxy.tables import AlarmTable, RouteTable, UpstreamTable

ENV_PREFIX = "CACHEPROXY_"
_Names = tuple[str, ...]
_Seconds = Annotated[float, Meta(ge=0, le=86400)]


def _row(description: str, **bounds: Any) -> Meta:
    """Return a setting's annotation: one line of help, and the bounds of its value."""
    return Meta(description=description, **bounds)


class ConfigError(ValueError):
    """An invalid setting; the message names its place and the remedy."""


class RuleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ``[[rule]]`` of the file, with the fields of cacheproxy.core.rules.rule.Rule."""

    name: str  #: the rule's name
    where: str | tuple[str, ...]  #: path patterns of the texts in which it matches
    pattern: str  #: a regular expression
    replacement: str | None = None  #: text for a match; None: see ``pin``, ``note``
    why: str = ""  #: its purpose, in words
    pin: bool = False  #: a conversation's first value stays in the prompt
    note: str | None = None  #: text for the model when a pinned value changes
    default: bool = True  #: the rule is on unless it is switched off
    literals: tuple[str, ...] = ()  #: texts of which one must occur for the rule to match
    client: str = EVERY  #: a client's name (cacheproxy.core.prompt.client), or ``*`` for all
    head: str = ""  #: beginning of the client's system text, required as well

    def rule(self) -> Rule:
        """Return the table as a Rule; raises RuleError."""
        try:
            is_any = self.client == EVERY and not self.head
            client = None if is_any else Client(self.client, must_begin=self.head)
        except ClientError as error:
            raise RuleError(f"rule {self.name!r}: {error}") from None
        fields = msgspec.structs.asdict(self) | {"client": client}
        del fields["head"]
        return Rule(**fields)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings. Each field's description has its unit."""

    upstream: Annotated[str, _row("URL of the model server, with or without /v1 at its end")] = (
        "http://localhost:8080"
    )
    port: Annotated[int, _row("port to listen on; 0: any free port", ge=0, le=65535)] = 8081
    interface: Annotated[str, _row("address to listen on")] = "127.0.0.1"
    listen: Annotated[str, _row("Twisted endpoint to listen on; replaces port and interface")] = ""
    enable: Annotated[_Names, _row("rules to switch on, joined by commas")] = ()
    disable: Annotated[_Names, _row("rules to switch off, joined by commas")] = ()
    block: Annotated[_Names, _row("plugins not to load, joined by commas")] = ()
    plugin: Annotated[_Names, _row("Python file with hooks or a table of rules; repeatable")] = ()
    dialect: Annotated[
        Literal["auto", "anthropic", "openai"],
        _row("API of the upstream: openai, anthropic (nothing is translated), or auto to find out"),
    ] = "auto"
    placement: Annotated[
        Literal["auto", "quiet", "user", "off"],
        _row(
            "place late system messages where the server can take them, as user messages or "
            "in a tool's result: auto, quiet (no test prompts), user (always), off"
        ),
    ] = "auto"
    keep_thinking: Annotated[
        Literal["auto", "yes", "no"],
        _row(
            "keep the reasoning of earlier turns in the prompt where the chat template can: auto "
            "(where the memory cannot rewind and the client sends it back), yes, no"
        ),
    ] = "auto"
    mend: Annotated[
        Literal["auto", "off"],
        _row(
            "send what a server has refused for its shape once more, as it can take it: auto, off"
        ),
    ] = "auto"
    keep_warm: Annotated[
        Literal["auto", "off"],
        _row(
            "have a restarted llama-server read the last prompts again while it is idle: auto, off"
        ),
    ] = "auto"
    edit_remote: Annotated[
        bool, _row("edit requests even where the upstream is not a local server")
    ] = False
    session_header: Annotated[
        _Names,
        _row("headers to send with a hash of the conversation, for a router before the servers"),
    ] = ()
    owner_ignores: Annotated[
        _Names,
        _row(
            "headers, query values and body members that tell no two people apart, though their "
            "names may, joined by commas; peer: the client's address"
        ),
    ] = ()
    allow_host: Annotated[
        _Names, _row("host names besides localhost that clients may use, joined by commas")
    ] = ()
    allow_origin: Annotated[
        _Names, _row("origins of web pages that may ask the model server, joined by commas")
    ] = ()
    token: Annotated[
        str,
        _row("secret that clients must send; better set in CACHEPROXY_TOKEN", pattern=r"^[!-~]*\Z"),
    ] = ""
    memory: Annotated[
        int, _row("most memory for what is remembered of conversations, in MiB", ge=16, le=65536)
    ] = 192
    max_body: Annotated[int, _row("largest request body, in MiB", ge=1, le=4096)] = 64
    bodies_in_flight: Annotated[
        int, _row("most memory for request bodies over 1 MiB at a time, in MiB", ge=1, le=65536)
    ] = 512
    max_head: Annotated[int, _row("largest request headers in all, in KiB", ge=1, le=1024)] = 64
    max_target: Annotated[int, _row("longest request target, in KiB", ge=1, le=1024)] = 32
    max_connections: Annotated[int, _row("most client connections at a time", ge=1, le=65535)] = (
        4096
    )
    idle_timeout: Annotated[
        float,
        _row(
            "seconds a client may be silent between requests, or inside a request body",
            gt=0,
            le=86400,
        ),
    ] = 75.0
    head_timeout: Annotated[
        float, _row("seconds in which all headers of a request must arrive", gt=0, le=3600)
    ] = 30.0
    connect_timeout: Annotated[
        float, _row("seconds to wait for a connection to the upstream", gt=0, le=3600)
    ] = 2.0
    upstream_silence: Annotated[
        _Seconds, _row("most seconds without data from the upstream; 0: no limit")
    ] = 3600.0
    ping_after: Annotated[
        _Seconds,
        _row("seconds of silence after which a streaming client gets a sign of life; 0: none"),
    ] = 15.0
    head_after: Annotated[
        _Seconds,
        _row(
            "seconds after which a streaming client gets a head, if the upstream has sent none; "
            "0: it waits"
        ),
    ] = 60.0
    hold: Annotated[
        _Seconds,
        _row(
            "seconds for which an upstream request goes on after its client left during the "
            "prefill, for a retry; 0: it ends at once"
        ),
    ] = 60.0
    held_memory: Annotated[
        int, _row("most memory for what is held for retries, in MiB", ge=1, le=65536)
    ] = 64
    crowd: Annotated[
        Literal["auto", "off"],
        _row(
            "keep a request back while another reads the same beginning, or while its slot is "
            "another conversation's that is about to go on: auto, off"
        ),
    ] = "auto"
    crowd_wait: Annotated[_Seconds, _row("most seconds for which a request is kept back so")] = 20.0
    grace: Annotated[
        _Seconds, _row("seconds that open answers may take to finish after a stop signal")
    ] = 30.0
    capture: Annotated[str, _row("folder to write all exchanges to, with their prompts")] = ""
    state_dir: Annotated[
        str, _row("folder for the lifetime totals; user: the default folder; none: keep no totals")
    ] = "user"
    poll: Annotated[
        float, _row("seconds between two reads of the upstream's counters; 0: never", ge=0, le=3600)
    ] = 10.0
    otel: Annotated[
        bool, _row("send OpenTelemetry spans, set up by the OTEL_ variables (needs the extra otel)")
    ] = False
    show_prompts: Annotated[
        bool,
        _row(
            "let the page show the lines of a prompt around a break, to this machine or the token"
        ),
    ] = False
    verbose: Annotated[bool, _row("also log body sizes and each edit")] = False
    rule: tuple[RuleTable, ...] = ()  #: the file's ``[[rule]]`` tables
    upstreams: tuple[UpstreamTable, ...] = ()
    """The file's ``[[upstream]]`` tables; ``upstream`` is the first one's URL then."""
    route: tuple[RouteTable, ...] = ()  #: the file's ``[[route]]`` tables
    alarm: AlarmTable = AlarmTable()  #: the file's ``[alarm]`` table

    @property
    def servers(self) -> tuple[UpstreamTable, ...]:
        """All upstreams; without ``[[upstream]]`` tables there is one, without a name."""
        return self.upstreams or (UpstreamTable("", self.upstream),)

    def token_header(self) -> dict[str, str]:
        """Return the header with the token, which our own commands send; {} without a token."""
        return {"X-Cacheproxy-Token": self.token} if self.token else {}

    def rules(self) -> list[Rule]:
        """Return the file's ``[[rule]]`` tables as rules; raises ConfigError."""
        try:
            return [table.rule() for table in self.rule]
        except RuleError as error:
            raise ConfigError(f"in the config file: {error}") from None


@dataclass(frozen=True, slots=True)
class Option:
    """A setting as an option of the command line."""

    field: str  #: name of the field in Config
    kind: type  #: type of the value; tuple: names joined by commas
    default: Any  #: value if the option is not given
    help: str  #: one line of help
    choices: _Names = ()  #: the only values, if these are limited

    @property
    def flag(self) -> str:
        """The option's name on the command line, without its dashes."""
        return self.field.replace("_", "-")

    @property
    def shown(self) -> str:
        """The default value as text, for people."""
        text = ",".join(self.default) if isinstance(self.default, tuple) else str(self.default)
        return text or "none"

    @property
    def is_file_list(self) -> bool:
        """Whether the option may be repeated, each time with one file's name."""
        return self.field == "plugin"


def options() -> Iterator[Option]:
    """Yield the settings that have an option and an environment variable: all but the tables."""
    hints = get_type_hints(Config, include_extras=True)
    for info in msgspec.structs.fields(Config):
        kind, *extras = get_args(hints[info.name]) or (AlarmTable,)
        meta = next((one for one in extras if getattr(one, "description", None)), None)
        if meta is not None:
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            known = str if choices else get_origin(kind) or kind
            yield Option(info.name, known, info.default, meta.description or "", choices)
