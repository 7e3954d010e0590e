"""A systemd user unit (systemd.service(5), systemd.unit(5), systemd.syntax(7))."""

from __future__ import annotations

import os
from pathlib import Path

from cacheproxy.units.unit import MARK, Command, ServiceManager, Unit, UnitError

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


def render(unit: Unit) -> bytes:
    """Return the unit file; raises UnitError for text that no unit file can hold."""
    environment = "".join(
        f"Environment={_quoted(f'{name}={value}')}\n" for name, value in unit.environment.items()
    )
    text = _TEMPLATE.format(
        mark=MARK,
        name=unit.name,
        program=" ".join(_quoted(word, command=True) for word in unit.program),
        state=_plain(str(unit.state)).replace("%", "%%"),
        environment=environment,
        stop=unit.stop_seconds,
    )
    return text.encode()


def manager(home: Path) -> ServiceManager:
    """Return systemd's user manager; ``home``: the user's folder."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user"
    return ServiceManager(
        path=lambda name: folder / f"{name}.service",
        render=render,
        # restart, since it may run already: with what the file said before
        start=lambda name: (
            _systemctl("daemon-reload"),
            _systemctl("enable", f"{name}.service"),
            _systemctl("restart", f"{name}.service"),
        ),
        stop=lambda name: (
            Command(("systemctl", "--user", "disable", "--now", f"{name}.service"), may_fail=True),
        ),
        forget=(Command(("systemctl", "--user", "daemon-reload"), may_fail=True),),
        status=lambda name: _systemctl("status", "--no-pager", f"{name}.service"),
        logs=_logs,
        hints=("It ends when you log out, unless you run: loginctl enable-linger",),
    )


def _systemctl(*words: str) -> Command:
    return Command(("systemctl", "--user", *words))


def _logs(name: str, _log: Path, lines: int, follow: bool) -> Command:
    more = ("--follow",) if follow else ("--no-pager",)
    unit = f"{name}.service"
    return Command(("journalctl", "--user", "--unit", unit, "--lines", str(lines), *more))


def _quoted(word: str, *, command: bool = False) -> str:
    """Return ``word`` as systemd.syntax(7) and systemd.service(5) (COMMAND LINES) have it."""
    text = _plain(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if command else text}"'


def _plain(text: str) -> str:
    if not text.isprintable():
        raise UnitError(f"a unit file cannot hold control characters: {text!r}")
    return text
