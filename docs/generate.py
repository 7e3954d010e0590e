"""Write the pages that repeat the code: configuration.md (cacheproxy.config), cli.md (--help).

    python docs/generate.py

A test compares the pages with what this makes.
"""

# ruff: noqa: INP001 - a script beside the pages that it writes
from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
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

Each setting is a key of the TOML file, an environment variable, and an option of `cacheproxy serve`
and `twistd cacheproxy`: `max_body`, `CACHEPROXY_MAX_BODY`, `--max-body`. The command line wins over
the environment, which wins over the file.

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

Several names are a list in the file; elsewhere commas join them. If a setting is wrong, the proxy
says so in one line and ends with exit code 2.

`SIGHUP` has a running proxy read the file again. These settings need a restart instead:
{restart}.

| setting | kind | default | what it says |
| --- | --- | --- | --- |
"""
_COMMANDS = """\
# Commands

<!-- Made by docs/generate.py from the commands' own help: change it there. -->

This page has each command with its options; `cacheproxy COMMAND --help` says more.
`cacheproxy serve` and `cacheproxy service install` also take the [settings](configuration.md). If
an option is wrong, a command prints one line and ends with exit code 2. These options are the same
wherever they are named below a command:

| option | what it says |
| --- | --- |
{shared}

"""
_SHARED_BY = 3  # commands that have an option in the same words: then it is described once
_TOOL = "A distribution of its own: in a checkout of cacheproxy, `pip install ./{folder}`."
_TABLES = """\

## Tables

In the file only:

| table | what it is | keys |
| --- | --- | --- |
| `[[upstream]]` | one of [several model servers](routes.md), instead of `upstream` | {upstream} |
| `[[route]]` | [which requests](routes.md) go to which of them | {route} |
| `[alarm]` | which breaks [are reported at once](alarm.md), and how | {alarm} |
| `[[rule]]` | a [rule](rules.md) of your own | {rule} |
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
    return _TABLES.format(
        upstream=_joined(UpstreamTable.__struct_fields__),
        route=_joined(RouteTable.__struct_fields__),
        alarm=_joined(AlarmTable.__struct_fields__),
        rule=_joined(RuleTable.__struct_fields__),
    )


def _joined(names: Iterable[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} and {last}"


def _commands() -> str:
    context = click.Context(main, info_name="cacheproxy", **main.context_settings)
    names = sorted({*COMMANDS, *TOOLS})  # no other plugin's
    found = [each for name in names for each in _walk(main, name, context)]
    rows = [row for command, _ in found for row in _rows(command)]
    shared = [row for row, times in Counter(rows).most_common() if times >= _SHARED_BY]
    table = "\n".join(
        f"| `{flags}` | {said} |".replace("[systemd|", "[systemd\\|") for flags, said in shared
    )
    return _COMMANDS.format(shared=table) + "\n".join(_help(*each, shared) for each in found)


def _walk(
    group: click.Group, name: str, above: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield the command ``name`` of ``group``, and each of its own commands."""
    command = group.get_command(above, name)
    assert command is not None
    command = _without_settings(command)
    context = click.Context(
        command, info_name=name, parent=above, terminal_width=_WIDTH, **command.context_settings
    )
    yield command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from _walk(command, each, context)


def _rows(command: click.Command) -> list[tuple[str, str]]:
    """Return the command's options, as their table has them."""
    options = (each for each in command.params if isinstance(each, click.Option))
    return [_row(option) for option in options]


def _row(option: click.Option) -> tuple[str, str]:
    value = "" if option.is_flag else f" {option.make_metavar(click.Context(main))}"
    return ", ".join(option.opts) + value, option.help or ""


def _help(
    command: click.Command, context: click.Context, shared: Collection[tuple[str, str]]
) -> str:
    """Return a command's section: what it does, and the options that the table does not have."""
    path = context.command_path
    tool = TOOLS.get(path.removeprefix("cacheproxy "))
    rows = _rows(command)
    command.params = [
        each
        for each in command.params
        if not (isinstance(each, click.Option) and _row(each) in shared)
    ]
    command.help = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    said = command.get_help(context).partition("\n\nCommands:")[0]  # each has a section
    also = ", ".join(
        f"`{row[0].split()[-2 if ' ' in row[0] else 0]}`" for row in rows if row in shared
    )
    return "".join(
        (
            f"## `{path}`\n\n",
            f"{_TOOL.format(folder=tool)}\n\n" if tool else "",
            f"```console\n{said}\n```\n",
            f"\nAnd {also}.\n" if also else "",
        )
    )


def _without_settings(command: click.Command) -> click.Command:
    """Return a copy of ``command`` without ``--help`` and the options that the settings have."""
    command = copy(command)
    command.add_help_option = False
    settings = {row.field for row in options()}
    if settings <= {each.name for each in command.params}:
        command.params = [each for each in command.params if each.name not in settings]
    return command


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
