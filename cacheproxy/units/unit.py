"""One installed proxy, whatever keeps it running, and the steps that put it there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_AFTER_ANSWERS = 15
"""Seconds."""
MARK = "Written by cacheproxy service install"
"""Stands in the files we write: only those are overwritten or removed."""


class UnitError(Exception):
    """It cannot be installed or removed; the message says in one line why, and what mends it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """``program``: the command line, its first word an absolute path.

    ``state``: the folder it runs in. ``log``: where its output goes, if the service manager keeps
    no log itself. ``environment``: variables that must not stand on the command line. ``grace``:
    seconds that open answers have to end.
    """

    name: str
    program: tuple[str, ...]
    state: Path
    log: Path
    grace: float
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop_seconds(self) -> int:
        """How long it may take to stop: after open answers, records are written."""
        return round(self.grace) + _AFTER_ANSWERS


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A file to write, for its owner alone."""

    path: Path
    content: bytes

    def is_foreign(self) -> bool:
        """Whether somebody else has written what is there now."""
        try:
            return MARK.encode() not in self.path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UnitError(f"cannot read {self.path}: {error.strerror}") from None

    def write(self) -> None:
        """Write it in one step; raises UnitError."""
        draft = self.path.with_name(self.path.name + ".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.content)
            draft.replace(self.path)
        except OSError as error:
            raise UnitError(f"cannot write {self.path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run. ``may_fail``: it is done already if this fails."""

    line: tuple[str, ...]
    may_fail: bool = False

    def run(self) -> int:
        """Run it in our own terminal; return its exit code. Raises UnitError if it is not there."""
        try:
            return subprocess.run(self.line, check=False).returncode  # noqa: S603 - our own words
        except OSError as error:
            raise UnitError(f"cannot run {self.line[0]}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """A service manager: how a unit is written down, and what it is told.

    ``path``: of a unit's file. ``render``: that file's content. ``start``, ``stop``, ``forget``:
    commands after the file is written, before it is removed, and after that. ``status``, and
    ``logs``, which may go on as new lines come.
    """

    path: Callable[[str], Path]
    render: Callable[[Unit], bytes]
    start: Callable[[str], tuple[Command, ...]]
    stop: Callable[[str], tuple[Command, ...]]
    forget: tuple[Command, ...]
    status: Callable[[str], Command]
    logs: Callable[[str, Path, int, bool], Command]
    hints: tuple[str, ...] = ()

    def file(self, unit: Unit) -> UnitFile:
        """Return the file of ``unit``; raises UnitError for what cannot be written down."""
        return UnitFile(self.path(unit.name), self.render(unit))


def run_all(commands: tuple[Command, ...]) -> None:
    """Run them in order; raises UnitError at the first that fails and must not."""
    for command in commands:
        code = command.run()
        if code and not command.may_fail:
            raise UnitError(f"{' '.join(command.line)} failed (exit code {code})")
