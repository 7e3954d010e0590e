"""The units with which a service manager (systemd, launchd) runs an installed proxy."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

from cacheproxy.config import ENV_PREFIX, options
from cacheproxy.configfile import replacing

MARK = "Written by cacheproxy service install"
"""Text in the files that we write: only files with it are overwritten or removed."""


def version() -> str:
    """Return the installed version of cacheproxy."""
    try:
        return distribution_version("cacheproxy-llm")
    except PackageNotFoundError:
        return "0 (not installed)"


class UnitError(Exception):
    """A unit cannot be installed or removed; the message is one line, with reason and remedy."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An installed proxy, whichever service manager runs it."""

    name: str  #: name of the service
    program: tuple[str, ...]  #: words of the command line; the first is an absolute path
    state: Path  #: its working directory
    log: Path  #: file for its output, if the service manager has no log of its own
    grace: float  #: seconds that open answers have to end
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for values that must not stand on the command line."""

    @property
    def stop_seconds(self) -> int:
        """Seconds that it may take to stop: after open answers, records are written."""
        return round(self.grace) + 15  # seconds to write records after the last open answer


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """A service manager: the format of its units' files, and its commands.

    In a command ``{name}``, ``{path}`` and ``{log}`` are the unit's, ``{lines}`` is the number of
    lines to print. A command that begins with a dash may fail: its effect is there already.
    """

    folder: Path  #: folder of units' files
    ending: str  #: suffix of their names
    render: Callable[[Unit], bytes]  #: returns the content of a unit's file
    start: tuple[str, ...]  #: commands after the file is written
    stop: tuple[str, ...]  #: commands before it is removed
    forget: tuple[str, ...]  #: commands after it is removed
    status: str  #: command that prints the status
    logs: str  #: command that prints the last ``{lines}`` of the log
    logs_on: str  #: the same command, but it goes on with new lines
    hints: tuple[str, ...] = ()  #: sentences to print after the installation

    def path(self, name: str) -> Path:
        """Return the path of the file of the unit ``name``."""
        return self.folder / f"{name}{self.ending}"

    def words(self, command: str, name: str, log: Path, lines: int = 0) -> list[str]:
        """Return the words of ``command``, one of its own, with the values filled in."""
        values = {"name": name, "path": self.path(name), "log": log, "lines": lines}
        return [word.format(**values) for word in command.removeprefix("-").split()]


def is_foreign(path: Path) -> bool:
    """Return whether there is a file that we did not write; raises UnitError."""
    try:
        return MARK.encode() not in path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UnitError(f"cannot read {path}: {error.strerror}") from None


def write(path: Path, content: bytes) -> None:
    """Write a file in one step, for its owner alone; raises UnitError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, content):
            pass
    except OSError as error:
        raise UnitError(f"cannot write {path}: {error.strerror}") from None


def run(words: Sequence[str]) -> int:
    """Run a command in our terminal; return its exit code. Raises UnitError if it cannot start."""
    try:
        return subprocess.run(words, check=False).returncode  # noqa: S603 - our own words
    except OSError as error:
        raise UnitError(f"cannot run {words[0]}: {error.strerror}") from None


_TEMPLATE = """\
# {mark}; changes are lost when it is installed again.
[Unit]
Description=cacheproxy: keeps a model server's prompt cache alive ({name})

[Service]
Type=exec
ExecStart={program}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={state}
{environment}Restart=on-failure
RestartSec=5
# A wrong setting stays wrong.
RestartPreventExitStatus=2
TimeoutStopSec={stop}
NoNewPrivileges=true

[Install]
WantedBy=default.target
"""


def _unit_file(unit: Unit) -> bytes:
    """Return the content of a unit file; raises UnitError for text that it cannot hold."""
    environment = "".join(
        f"Environment={_quoted(f'{name}={value}')}\n" for name, value in unit.environment.items()
    )
    text = _TEMPLATE.format(
        mark=MARK,
        name=unit.name,
        program=" ".join(_quoted(word, command=True) for word in unit.program),
        state=_without_controls(str(unit.state)).replace("%", "%%"),
        environment=environment,
        stop=unit.stop_seconds,
    )
    return text.encode()


def systemd(home: Path) -> ServiceManager:
    """Return systemd's user manager; ``home``: the user's folder."""
    return ServiceManager(
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user",
        ".service",
        _unit_file,
        start=(
            "systemctl --user daemon-reload",
            "systemctl --user enable {name}.service",
            # It may run already, from the previous file.
            "systemctl --user restart {name}.service",
        ),
        stop=("-systemctl --user disable --now {name}.service",),
        forget=("-systemctl --user daemon-reload",),
        status="systemctl --user status --no-pager {name}.service",
        logs="journalctl --user --unit {name}.service --lines {lines} --no-pager",
        logs_on="journalctl --user --unit {name}.service --lines {lines} --follow",
        hints=("It ends when you log out, unless you run: loginctl enable-linger",),
    )


def _quoted(word: str, *, command: bool = False) -> str:
    """Return ``word`` quoted by systemd.syntax(7); ``command``: ``$`` doubled. Raises UnitError."""
    text = _without_controls(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if command else text}"'


def _without_controls(text: str) -> str:
    """Return ``text`` as it is; raises UnitError if it has control characters."""
    if not text.isprintable():
        raise UnitError(f"a unit file cannot hold control characters: {text!r}")
    return text


def _property_list(unit: Unit) -> bytes:
    """Return the content of a property list; raises UnitError for text that XML cannot hold."""
    value: dict[str, Any] = {
        "Label": unit.name,
        "ProgramArguments": list(unit.program),
        "WorkingDirectory": str(unit.state),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,  # seconds between two starts of a program that ends at once
        "ExitTimeOut": unit.stop_seconds,
        # The system slows down background jobs, and that would slow down each request.
        "ProcessType": "Interactive",
        "StandardOutPath": str(unit.log),
        "StandardErrorPath": str(unit.log),
    }
    if unit.environment:
        value["EnvironmentVariables"] = dict(unit.environment)
    try:
        text = plistlib.dumps(value, sort_keys=False)
    except ValueError:
        raise UnitError("a property list cannot hold control characters") from None
    head, separator, rest = text.partition(b"<plist")
    return head + f"<!-- {MARK} -->\n".encode() + separator + rest


def launchd(home: Path) -> ServiceManager:
    """Return launchd, for the user who is logged in; ``home``: the user's folder."""
    domain = f"gui/{os.getuid()}" if hasattr(os, "getuid") else "gui/0"
    bootout = f"-launchctl bootout {domain}/{{name}}"
    return ServiceManager(
        home / "Library/LaunchAgents",
        ".plist",
        _property_list,
        # It may run already, from the previous file.
        start=(bootout, f"launchctl bootstrap {domain} {{path}}"),
        stop=(bootout,),
        forget=(),
        status=f"launchctl print {domain}/{{name}}",
        logs="tail -n {lines} {log}",
        logs_on="tail -n {lines} -F {log}",
    )


_PATHS = ("config", "capture", "state_dir")
"""Settings that are paths, made absolute: the service has a working directory of its own."""
_NO_PATHS = ("user", "none")  #: words that state_dir accepts instead of a path


def settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the service's settings by field name: those in ``given`` and in the environment.

    The environment's are included since the service has another one. ``given``: text, or True for
    flags; None, False or () for options that were not given.
    """
    found: dict[str, Any] = {}
    if environ.get(ENV_PREFIX + "CONFIG"):
        found["config"] = environ[ENV_PREFIX + "CONFIG"]
    for row in options():
        value = environ.get(ENV_PREFIX + row.field.upper())
        if value:
            found[row.field] = value.lower() in ("true", "1") if row.kind is bool else value
            if row.is_file_list:
                found[row.field] = [name.strip() for name in value.split(",") if name.strip()]
    found |= {name: value for name, value in given.items() if value not in (None, False, ())}
    if "plugin" in found:
        found["plugin"] = [str(_absolute(name)) for name in found["plugin"]]
    for name in _PATHS:
        if found.get(name) and found[name] not in _NO_PATHS:
            found[name] = str(_absolute(found[name]))
    return found


def program(words: list[str]) -> tuple[str, ...]:
    """Return the words of ``cacheproxy serve WORDS`` by this process's Python; raises UnitError."""
    if not sys.executable:
        raise UnitError("this Python does not know where it is installed")
    # -P: no module is imported from the working directory. The path is not resolved: a virtual
    # environment's interpreter is a link, and Python finds the environment by the link's place.
    return (str(Path(sys.executable).absolute()), "-P", "-m", "cacheproxy", "serve", *words)


def _absolute(name: str) -> Path:
    """Return the absolute path of ``name``, with ``~`` replaced; raises UnitError."""
    try:
        return Path(name).expanduser().absolute()
    except RuntimeError:
        raise UnitError(f"no such user: {name}") from None
