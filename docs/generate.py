"""Write the pages that repeat the code: configuration.md (cacheproxy.config), cli.md (--help).

    python docs/generate.py

A test compares the pages with what this makes.
"""

# ruff: noqa: INP001 - a script beside the pages that it writes
from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import get_args, get_type_hints

import click
import msgspec

from cacheproxy.cli.main import COMMANDS, TOOLS, main
from cacheproxy.config import Config, Option, RuleTable, options
from cacheproxy.daemon.reloading import NEED_A_RESTART
from cacheproxy.tables import AlarmTable, RouteTable, UpstreamTable

FOLDER = Path(__file__).parent
_WIDTH = 96
_KINDS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    tuple: "names",
}
_HEAD = """\
# Configuration

<!-- Made by docs/generate.py from cacheproxy/config.py: change it there. -->

This page lists all settings. Each is a key of the TOML file, an environment variable, and an option
of `cacheproxy serve` and `twistd cacheproxy`: `max_body`, `CACHEPROXY_MAX_BODY`, `--max-body`. The
command line wins over the environment, which wins over the file.

`--config` or `CACHEPROXY_CONFIG` names the file. By default it is
`~/.config/cacheproxy/config.toml` on Linux,
`~/Library/Application Support/cacheproxy/config.toml` on macOS and
`%LOCALAPPDATA%\\cacheproxy\\cacheproxy\\config.toml` on Windows. It need not exist.

```toml
upstream = "http://localhost:8080"
disable = ["claude-pin-git-status"]
max_body = 128
edit_remote = true
```

Several names are a list in the file; elsewhere commas join them. If a setting cannot be used, the
proxy says so in one line and ends with exit code 2.

`SIGHUP` has a running proxy read the file again. These settings need a restart instead:
{restart}.

| setting | kind | default | what it says |
| --- | --- | --- | --- |
"""
_COMMANDS = """\
# Commands

<!-- Made by docs/generate.py from the commands' own help: change it there. -->

This is what `--help` prints for each command. Left out are `-h` and `--help` themselves, which each
command has, and the [settings](configuration.md), which `cacheproxy serve` and
`cacheproxy service install` take as options. If an option or a setting is wrong, a command prints
one line and ends with exit code 2.

"""
_TOOL = "A distribution of its own: in a checkout of cacheproxy, `pip install ./{folder}`."
_TABLES = """\

## `[[upstream]]`

In the file only, instead of `upstream`: one of several model servers, with the keys {upstream}.
[Several upstreams](routes.md) explains them.

## `[[route]]`

In the file only: which requests go to which of them, with the keys {route}.
[Several upstreams](routes.md) explains them, too.

## `[alarm]`

In the file only: which breaks are reported at once, and how, with the keys {alarm}.
[Alarm](alarm.md) explains them.

"""
_RULE = """\
## `[[rule]]`

In the file only: a rule of your own, with the keys {keys}. [Rules](rules.md) explains them.
"""


def pages() -> dict[str, str]:
    """Return the pages' texts by their names."""
    return {"configuration.md": _settings(), "cli.md": _commands()}


def _settings() -> str:
    head = _HEAD.format(restart=_joined(NEED_A_RESTART))
    return head + "\n".join(map(_line, options())) + "\n" + _rules()


def _line(row: Option) -> str:
    said = row.help.replace("|", "\\|")
    kind = " \\| ".join(f"`{each}`" for each in row.choices) or _KINDS[row.kind] + _range(row.field)
    return f"| `{row.field}` | {kind} | {_default(row)} | {said} |"


def _default(row: Option) -> str:
    if row.kind is bool:
        return "`false`"
    if row.default in ((), ""):
        return "none"
    return f"`{row.default}`"


def _range(field: str) -> str:
    """Return which values can be had, where the table has limits."""
    hint = get_type_hints(Config, include_extras=True)[field]
    metas = (extra for extra in get_args(hint) if isinstance(extra, msgspec.Meta))
    meta = next((one for one in metas if one.le is not None), None)
    if meta is None:
        return ""
    return f", {meta.ge} to {meta.le}" if meta.gt is None else f", above {meta.gt}, to {meta.le}"


def _rules() -> str:
    tables = _TABLES.format(
        upstream=_joined(UpstreamTable.__struct_fields__),
        route=_joined(RouteTable.__struct_fields__),
        alarm=_joined(AlarmTable.__struct_fields__),
    )
    return tables + _RULE.format(keys=_joined(RuleTable.__struct_fields__))


def _joined(names: Iterable[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} and {last}"


def _commands() -> str:
    context = click.Context(main, info_name="cacheproxy", **main.context_settings)
    names = sorted({*COMMANDS, *TOOLS})  # no other plugin's
    return _COMMANDS + "\n".join(each for name in names for each in _helps(main, name, context))


def _helps(group: click.Group, name: str, above: click.Context) -> Iterator[str]:
    """Yield a section for the command ``name`` of ``group``, and for each of its own commands."""
    command = group.get_command(above, name)
    assert command is not None
    context = click.Context(
        command, info_name=name, parent=above, terminal_width=_WIDTH, **command.context_settings
    )
    said = _without_settings(command).get_help(context)
    tool = f"{_TOOL.format(folder=TOOLS[name])}\n\n" if group is main and name in TOOLS else ""
    yield f"## `{context.command_path}`\n\n{tool}```console\n{said}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from _helps(command, each, context)


def _without_settings(command: click.Command) -> click.Command:
    """Return ``command`` without ``--help`` and the options that the settings have."""
    command = copy(command)
    command.add_help_option = False
    settings = {row.field for row in options()}
    if settings <= {each.name for each in command.params}:
        command.params = [each for each in command.params if each.name not in settings]
    return command


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
