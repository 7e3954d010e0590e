"""twistd's options, made from the one table in cacheproxy.config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from twisted.python import usage

from cacheproxy.config import ENV_PREFIX, Config, ConfigError, options
from cacheproxy.daemon.service import stop
from cacheproxy.sources import check_secrets, default_file, explain, load

_PID_FILE = "twistd.pid"
"""twistd's own default, in the working folder."""


class Options(usage.Options):
    """What twistd reads from the command line; ``settings`` is the whole configuration."""

    synopsis = "[options]"
    longdesc = (
        "A reverse proxy that keeps a model server's prompt cache alive for coding agents. "
        "Every option is also an environment variable (CACHEPROXY_PORT ...) and a key of the "
        "TOML file."
    )
    optParameters = [  # noqa: RUF012 - twisted's own interface
        ["config", "c", None, "TOML file to read"],
        *(
            [option.flag, None, None, f"{option.help} [default: {option.shown}]"]
            for option in options()
            if option.kind is not bool and not option.is_file_list
        ),
    ]
    optFlags = [  # noqa: RUF012 - twisted's own interface
        [option.flag, None, option.help] for option in options() if option.kind is bool
    ]

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse the command line; an error is one line and exit code 2."""
        self["plugin"] = []
        self._folder = os.getcwd()  # noqa: PTH109 - where paths begin when they are read again
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            stop(2, f"{explain(str(error))}: see twistd cacheproxy --help")

    def opt_plugin(self, name: str) -> None:  # noqa: D102 - below, from the table
        self["plugin"].append(name)

    opt_plugin.__doc__ = next(option.help for option in options() if option.is_file_list)

    def parseArgs(self, *arguments: str) -> None:
        """Take no arguments: they are usually a forgotten ``--``."""
        if arguments:
            raise usage.UsageError(f"unexpected argument {arguments[0]!r}")

    def postOptions(self) -> None:
        """Fill ``self.settings``, so that a bad setting is reported before anything starts.

        In the foreground (``twistd -n``) no pid file is written unless the user asked for one: so
        nothing is left in the working folder, and two proxies can be started there.
        """
        twistd: Any = self.parent or {}
        if twistd.get("nodaemon") and twistd.get("pidfile") == _PID_FILE:
            twistd["pidfile"] = ""
        named = self["config"] or os.environ.get(ENV_PREFIX + "CONFIG")
        if named:  # the same file when it is read again in another working directory
            self["config"] = os.path.abspath(os.path.expanduser(named))  # noqa: PTH100, PTH111
        try:
            self.settings = self.read()
        except ConfigError as error:
            stop(2, str(error))

    @property
    def file(self) -> str:
        """The config file that is read, if it is there."""
        return str(self["config"] or default_file())

    def read(self, text: str | None = None) -> Config:
        """Return the configuration, with ``text`` as the config file's content if it is given.

        Raises ConfigError.
        """
        config = load(self.given(), os.environ, self["config"], self._folder, text)
        check_secrets(config, os.environ)
        return config

    def given(self) -> dict[str, Any]:
        """Return the command line's settings, by field name."""
        return {
            option.field: bool(self[option.flag]) if option.kind is bool else self[option.flag]
            for option in options()
            if self[option.flag]
        }
