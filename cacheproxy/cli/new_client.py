"""``cacheproxy new-client``: the folder of a client package, to start from."""

from __future__ import annotations

from pathlib import Path

import click

from cacheproxy.cli.settings import OneLine
from cacheproxy.newclient.folder import write

_NEXT = """\

Next:
  pip install -e '{folder}[test]' && pytest {folder}
  record your client     cacheproxy serve --capture FOLDER
  see what changes       cacheproxy inspect FOLDER
  put the recording in   {folder}/tests/captures
"""


@click.command("new-client", cls=OneLine)
@click.argument("name")
@click.option(
    "--folder",
    default=".",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="Where to create the folder.  [default: the working directory]",
)
def new_client(name: str, folder: str) -> None:
    """Create a client package: a folder with rules, a recording and passing tests.

    NAME is the client's, in lower case: my-agent. docs/clients.md goes on from
    there.
    """
    made = write(name, Path(folder))
    for file in made:
        click.echo(f"made {file}")
    click.echo(_NEXT.format(folder=made[0].parent), nl=False)
