"""``cacheproxy service``: keep the proxy running, by systemd or launchd."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import platformdirs

from cacheproxy.cli.settings import OneLine, arguments, fail, proxy_options
from cacheproxy.config import ENV_PREFIX, Config, options
from cacheproxy.plugin.packages import configured
from cacheproxy.proxy.upstream.upstream import UpstreamURL, UpstreamURLError
from cacheproxy.sources import check_secrets, load
from cacheproxy.units import (
    ServiceManager,
    Unit,
    UnitError,
    is_foreign,
    launchd,
    program,
    run,
    settings,
    systemd,
    write,
)

_MANAGERS: dict[str, Callable[[Path], ServiceManager]] = {"systemd": systemd, "launchd": launchd}
_BY_PLATFORM = {"linux": "systemd", "darwin": "launchd"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_DEFAULT_NAME = "cacheproxy"
_NOT_INSTALLED = 4  #: exit code of ``systemctl status`` for an unknown unit
_SCHEDULER = (
    "Windows has no such services for a user: let the Task Scheduler start the proxy when you "
    "log on (schtasks /create /tn cacheproxy /sc onlogon /tr ...), with the program {program}"
)


@click.group()
def service() -> None:
    """Keep the proxy running: a systemd user unit, or a launchd agent on macOS."""


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all subcommands; ``--kind`` becomes ``manager``, and errors one line."""

    @functools.wraps(function)
    def guarded(*, name: str, kind: str | None, **more: Any) -> None:
        if not _NAME.match(name):
            fail("--name takes letters, digits, dots, dashes and underscores")
        try:
            function(name=name, manager=_manager(kind), **more)
        except UnitError as error:
            fail(str(error), 1)

    for option in (
        click.option("--dry-run", is_flag=True, help="Only print what would be written and run."),
        click.option(
            "--kind",
            type=click.Choice(list(_MANAGERS)),
            help="The service manager to write for; by default this system's own.",
        ),
        click.option(
            "--name",
            default=_DEFAULT_NAME,
            show_default=True,
            help="The service's name, if there is more than one proxy.",
        ),
    ):
        guarded = option(guarded)
    return guarded


@service.command(cls=OneLine)
@proxy_options
@click.option("--force", is_flag=True, help="Overwrite a file that this command did not write.")
@_common
def install(
    *, name: str, manager: ServiceManager, dry_run: bool, force: bool, **given: Any
) -> None:
    """Write the unit and start it, now and at every login.

    The options are those of cacheproxy serve; settings in the environment (CACHEPROXY_PORT ...)
    are passed on, too. A token is written into the unit's file, which only you can read.
    """
    found = settings(given, os.environ)
    state = platformdirs.user_state_path("cacheproxy")
    if name != _DEFAULT_NAME:
        state /= name
        if any(row.field == "state_dir" for row in options()):
            found.setdefault("state_dir", str(state))
    config = _checked(found)
    keys = {table.key_env: table.key() for table in config.upstreams if table.key_env}
    if config.alarm.secret_env:
        keys[config.alarm.secret_env] = config.alarm.secret()
    token = found.pop("token", None)  # not on a command line, which other users can see
    environment = ({f"{ENV_PREFIX}TOKEN": token} if token else {}) | keys
    words = program(list(arguments(found)))
    unit = Unit(name, words, state, _log_path(name), config.grace, environment)
    path = manager.path(name)
    content = manager.render(unit)
    if is_foreign(path) and not force:
        raise UnitError(f"{path} was not written by this command: use another --name, or --force")
    if dry_run:
        hidden = dict.fromkeys(unit.environment, "(the token)")
        shown = manager.render(replace(unit, environment=hidden))
        click.echo(f"would write {path}:\n\n{shown.decode()}")
        click.echo(f"would make the folders {unit.state}, {unit.log.parent}")
    else:
        for folder in (unit.state, unit.log.parent):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise UnitError(f"cannot make {folder}: {error.strerror}") from None
        write(path, content)
        click.echo(f"wrote {path}")
    run_all(manager, manager.start, name, dry_run=dry_run)
    if not dry_run:
        first, second = (_command_line(word, name) for word in ("status", "logs"))
        click.echo(f"{name} is started. See: {first}; {second}")
        for hint in manager.hints:
            click.echo(hint)


@service.command(cls=OneLine)
@click.option("--force", is_flag=True, help="Remove a file that this command did not write.")
@_common
def uninstall(*, name: str, manager: ServiceManager, dry_run: bool, force: bool) -> None:
    """Stop the service and remove its unit. Configuration, totals and logs stay."""
    path = manager.path(name)
    if not path.exists():
        raise UnitError(f"service {name} is not installed: there is no {path}")
    if is_foreign(path) and not force:
        raise UnitError(f"{path} was not written by cacheproxy: --force removes it")
    run_all(manager, manager.stop, name, dry_run=dry_run)
    try:
        if not dry_run:
            path.unlink()
    except OSError as error:
        raise UnitError(f"cannot remove {path}: {error.strerror}") from None
    click.echo(f"{'would remove' if dry_run else 'removed'} {path}")
    run_all(manager, manager.forget, name, dry_run=dry_run)


@service.command(cls=OneLine)
@_common
def status(*, name: str, manager: ServiceManager, dry_run: bool) -> None:
    """Say whether the service runs, with the service manager's own words and exit code."""
    if not dry_run and not manager.path(name).exists():
        fail(f"service {name} is not installed: {_command_line('install', name)}", _NOT_INSTALLED)
    raise SystemExit(_run(manager.words(manager.status, name, _log_path(name)), dry_run=dry_run))


@service.command(cls=OneLine)
@click.option("-n", "--lines", type=click.IntRange(1, 100_000), default=100, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Follow the log: print new lines as they come.")
@_common
def logs(*, name: str, manager: ServiceManager, dry_run: bool, lines: int, follow: bool) -> None:
    """Print the last lines that the service has logged."""
    command = manager.logs_on if follow else manager.logs
    raise SystemExit(_run(manager.words(command, name, _log_path(name), lines), dry_run=dry_run))


def _manager(kind: str | None) -> ServiceManager:
    """Return the service manager ``kind``, None for this system's own; raises UnitError."""
    if kind is None:
        kind = _BY_PLATFORM.get(sys.platform)
    if kind is not None:
        return _MANAGERS[kind](Path.home())
    words = " ".join(program([]))
    if sys.platform == "win32":
        raise UnitError(_SCHEDULER.format(program=words))
    raise UnitError(
        f"cacheproxy knows no service manager for {sys.platform}; have yours run: {words}"
    )


def _checked(found: Mapping[str, Any]) -> Config:
    """Return the configuration of ``found``; raises now what would end the service later."""
    told = {field: value for field, value in found.items() if field != "config"}
    config = load(told, {}, found.get("config"))
    check_secrets(config, os.environ)
    try:
        for table in config.servers:
            UpstreamURL.parse(table.url)
    except UpstreamURLError as error:
        fail(str(error))
    configured(config)
    return config


def _log_path(name: str) -> Path:
    return platformdirs.user_log_path("cacheproxy") / f"{name}.log"


def _run(words: Sequence[str], *, dry_run: bool) -> int:
    """Run a command and return its exit code; with ``dry_run``, only print it."""
    if not dry_run:
        return run(words)
    click.echo(f"would run {' '.join(words)}")
    return 0


def run_all(manager: ServiceManager, commands: Sequence[str], name: str, *, dry_run: bool) -> None:
    """Run ``commands`` in order; raises UnitError if one fails that begins with no dash."""
    for command in commands:
        words = manager.words(command, name, _log_path(name))
        code = _run(words, dry_run=dry_run)
        if code and not command.startswith("-"):
            raise UnitError(f"{' '.join(words)} failed (exit code {code})")


def _command_line(word: str, name: str) -> str:
    """Return the command line of the subcommand ``word`` for the service ``name``."""
    return f"cacheproxy service {word}" + (f" --name {name}" if name != _DEFAULT_NAME else "")
