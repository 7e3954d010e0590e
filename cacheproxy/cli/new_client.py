"""``cacheproxy new-client``: the folder of a client package, to start from."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from cacheproxy.cli.settings import OneLine
from cacheproxy.core.prompt.client import Client, ClientError
from cacheproxy.http_client import CommandError

_NEXT = """\

Next:
  pip install -e '{folder}[test]' && pytest {folder}
  record your client     cacheproxy serve --capture FOLDER
  see what changes       cacheproxy inspect FOLDER
  put the recording in   {folder}/tests/captures
"""
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FILES = {
    "pyproject.txt": "pyproject.toml",
    "readme.txt": "README.md",
    "module.txt": "$module.py",
    "test.txt": "tests/test_$word.py",
    "capture.txt": "tests/captures/$name-midnight.jsonl",
}
"""Templates (string.Template) of the package's files, each with the path of its file."""


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


def write(name: str, where: Path) -> list[Path]:
    """Write the folder ``cacheproxy-NAME`` in ``where``; return its files, the first at its top.

    Raises CommandError if ``name`` is no client's name, or the folder exists or cannot be made.
    """
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} is not a valid name: write lower-case words joined by dashes")
    try:
        Client(name)  # raises for a name that the package could not be imported under
    except ClientError as error:
        raise CommandError(f"{name!r} is not a valid name: {error}") from None
    word = name.replace("-", "_")
    values = {"name": name, "word": word, "module": f"cacheproxy_{word}"}
    folder = where / f"cacheproxy-{name}"
    made = []
    try:
        folder.mkdir()
        for template, named in _FILES.items():
            file = folder / Template(named).substitute(values)
            file.parent.mkdir(parents=True, exist_ok=True)
            text = files("cacheproxy.cli.newclient").joinpath(template).read_text(encoding="utf-8")
            file.write_text(Template(text).substitute(values), encoding="utf-8")
            made.append(file)
    except FileExistsError:
        raise CommandError(f"{folder} already exists") from None
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror}") from None
    return made
