"""``cacheproxy env``: a client's settings for the proxy, ready for a shell or a file."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace

import click

from cacheproxy.cli.running import get_json, need_of, proxy_url
from cacheproxy.cli.settings import (
    OneLine,
    api_key_option,
    config_option,
    json_option,
    key_headers,
    print_json,
    proxy_option,
    read_settings,
    say,
)
from cacheproxy.client_setup.need import model_and_context
from cacheproxy.client_setup.shell import SHELLS, lines
from cacheproxy.http_client import HEALTH, CommandError, checked_url
from cacheproxy.plugin.loading import installed, package_for, setups

_UNSAID = ("launch", "limits")
"""Fields of a setup that are not printed: the first serves ``run``, the second is a variable."""


def begun(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the sorted names of clients that have settings and begin with ``incomplete``."""
    return [name for name in sorted(setups(installed())) if name.startswith(incomplete)]


client_argument = click.argument("client", metavar="CLIENT", shell_complete=begun)


@click.command(cls=OneLine)
@client_argument
@click.option(
    "--shell",
    type=click.Choice(SHELLS),
    default="powershell" if sys.platform == "win32" else "bash",
    show_default=True,
    help="The shell to write for; bash also means sh and zsh.",
)
@proxy_option
@api_key_option
@config_option
@json_option
def env(
    *,
    client: str,
    shell: str,
    proxy: str | None,
    api_key: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Print what CLIENT needs to use the proxy: base URL, key, model, context window.

    CLIENT is a client whose package is installed, by its own name or the package's. Model and
    context window are those of the model server, asked through the running proxy.

    Some clients read variables:  eval "$(cacheproxy env CLIENT)"  (fish: cacheproxy env CLIENT
    --shell fish | source). For the others it prints what goes into their configuration file, and
    says on standard error which file that is. The proxy's token, if there is one, stands in the
    variables in plain text; files only name it.
    """
    key_headers(api_key)  # ends the command for a key that no header can carry
    settings = read_settings(config)
    package = package_for(client, settings.block, settings.plugin)
    url = checked_url(proxy or proxy_url(settings))
    page, missing = None, ""
    try:
        page = get_json(url, HEALTH, settings.token_header(), instead=" before you use the client")
        if model_and_context(page)[0] is None:
            _warn(
                "the model server does not answer the proxy, or names no model that may be "
                "printed. Start it, then"
            )
    except CommandError as error:
        missing = str(error)
        _warn(f"{missing}. Then")
    need = need_of(url, settings, api_key, page)
    setup = package.setup(need)
    direct = need.unproxied(os.environ)
    setup = replace(setup, variables={**direct, **setup.told(os.environ)})
    for warning in setup.warnings:
        say(warning)
    if as_json:
        print_json(
            {name: value for name, value in asdict(setup).items() if name not in _UNSAID},
            ascii_only=False,
        )
    elif setup.content is None:
        unset = [name for name in setup.unset if os.environ.get(name)]
        click.echo("\n".join(lines(shell, setup.variables, unset, setup.notes, missing)))
    else:
        if setup.file is not None:
            say(f"put this into {setup.file}, and keep what is already there.")
        for note in (*setup.notes, *(f"Set {each}={value}" for each, value in direct.items())):
            say(note)
        click.echo(setup.content, nl=False)
    if missing:
        raise SystemExit(1)


def _warn(what: str) -> None:
    """Print ``what``, a sentence's beginning, with the advice to run this again, on stderr."""
    say(f"{what} run this again for the model and its context window")
