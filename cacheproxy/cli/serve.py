"""``cacheproxy serve``: the proxy in the foreground, which is twistd with good defaults."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from cacheproxy.cli.settings import OneLine, arguments, fail, proxy_options


@click.command(cls=OneLine)
@proxy_options
@click.option(
    "--pidfile",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the process id to this file while the proxy runs. By default no file is written.",
)
def serve(*, pidfile: str | None, **given: Any) -> None:
    """Run the proxy until it is stopped.

    Each option is also an environment variable (CACHEPROXY_PORT ...) and a key of the TOML file.

    SIGTERM and Ctrl-C let open answers finish (a second one does not), SIGHUP reads the
    configuration again. The exit code is 0 when all answers could finish, 1 when the port is
    taken or answers were broken off, 2 when a setting is wrong.
    """
    if pidfile is not None and sys.platform == "win32":
        fail("--pidfile does not work on Windows: leave it out")
    if pidfile is not None and not os.access(Path(pidfile).absolute().parent, os.W_OK | os.X_OK):
        fail(f"cannot write {pidfile}: its folder does not exist, or you may not write to it", 1)
    # Without a pid file two instances can run in the same folder; Windows has none anyway.
    file = [] if sys.platform == "win32" else [f"--pidfile={pidfile or ''}"]
    run(["--nodaemon", *file, "cacheproxy", *arguments(given)])


def run(line: list[str]) -> None:
    """Run twistd with the arguments ``line``, put into ``sys.argv``, in this process to its end."""
    # Imported here and not above, since the import installs the reactor.
    from twisted.scripts import twistd  # noqa: PLC0415

    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: None)  # the settings have not been read yet
    sys.argv = ["twistd", *line]
    try:
        twistd.run()
    except SystemExit as error:
        if isinstance(error.code, str):  # twistd's own words on the pid file, on several lines
            fail(_of_pid_file(error.code), 1)
        raise


def _of_pid_file(said: str) -> str:
    """Return twistd's message on the pid file as one line, with the remedy if it still runs."""
    first = said.splitlines()[0]
    if first.startswith("Another twistd server is running, PID "):
        number = first.rsplit(" ", 1)[1]
        return (
            f"process {number}, which the pid file names, is still running: stop it, or use "
            "another --pidfile"
        )
    return first
