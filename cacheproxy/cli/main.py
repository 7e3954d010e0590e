"""The ``cacheproxy`` command: each subcommand is a module of its own."""

from __future__ import annotations

import click

from cacheproxy.cli.capture import capture
from cacheproxy.cli.demo import demo
from cacheproxy.cli.diagnose import diagnose
from cacheproxy.cli.doctor import doctor
from cacheproxy.cli.env import env
from cacheproxy.cli.inspect import inspect
from cacheproxy.cli.plugins import plugins
from cacheproxy.cli.replay import replay
from cacheproxy.cli.rules import rules
from cacheproxy.cli.serve import serve
from cacheproxy.cli.service import service


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cacheproxy-llm", prog_name="cacheproxy")
def main() -> None:
    """Keep a model server's prompt cache alive for coding agents.

    The proxy itself runs as: cacheproxy serve --upstream http://localhost:8080
    (or, with twistd's own options: twistd -n cacheproxy --upstream ...)
    """


for command in (
    capture,
    demo,
    diagnose,
    doctor,
    env,
    inspect,
    plugins,
    replay,
    rules,
    serve,
    service,
):
    main.add_command(command)
