"""``cacheproxy doctor``: is the cache working, and if not, what is wrong."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import click

from cacheproxy.cli.address import proxy_url
from cacheproxy.cli.progress import console
from cacheproxy.config import ConfigError, load
from cacheproxy.demo.client import checked_url
from cacheproxy.demo.errors import DemoError
from cacheproxy.doctor.examine import Inputs, OnStep, examine
from cacheproxy.doctor.guard import Ask
from cacheproxy.doctor.report import Report, of_examination
from cacheproxy.doctor.server_log import NoLogError
from cacheproxy.doctor.server_log import read as read_log
from cacheproxy.plugin.plugins import PluginError


@click.command()
@click.option("--proxy", metavar="URL", help="The proxy, if not where the configuration says.")
@click.option(
    "--upstream", metavar="URL", help="The model server, if not the one the proxy sends to."
)
@click.option("--server-log", metavar="FILE", help="Read a llama-server log instead; - for stdin.")
@click.option("--api-key", metavar="KEY", help="The key the model server asks for, if it does.")
@click.option("--model", help="The model to ask for; by default the first one the server lists.")
@click.option(
    "--send/--no-send",
    default=None,
    help="Send test prompts without asking, or none; by default it asks where it may cost much.",
)
@click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=0.0,
    help="Watch the server and the proxy for so long, while you use your agent.",
)
@click.option("-c", "--config", metavar="FILE", help="TOML file to read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of words.")
def doctor(
    *,
    proxy: str | None,
    upstream: str | None,
    server_log: str | None,
    api_key: str | None,
    model: str | None,
    send: bool | None,
    watch: float,
    config: str | None,
    as_json: bool,
) -> None:
    """Say whether the prompt cache works, what is wrong, and what mends it.

    Asks the proxy and the model server, has the server render a conversation of a few dozen words
    where it can, which evaluates nothing, and sends it a made-up prompt of about 600 tokens (more
    where vLLM keeps large blocks) three or four times on each API it serves, to see what is reused
    with the rules and without. That costs the server two or three short prefills on each; the
    proxy keeps them out of its records. Where they might push a conversation out of llama-server's
    slots, it asks first (not at a terminal: sends nothing); --send and --no-send answer
    beforehand. With --server-log nothing is asked or sent.

    The exit code is 0 if nothing FAILs, 1 if something does, 2 if nothing can be said.
    """
    if server_log is not None:
        report = _of_log(server_log)
    else:
        try:
            settings = load({}, os.environ, config)
            _url(settings.upstream)
            with _progress() as (on_step, ask):
                inputs = Inputs(
                    config=settings,
                    proxy=_url(proxy or proxy_url(settings)),
                    upstream=_url(upstream) if upstream is not None else None,
                    environ=os.environ,
                    home=Path.home(),
                    headers=_headers(api_key),
                    token=settings.token_header(),
                    model=model,
                    send=send,
                    ask=ask,
                    watch=watch,
                )
                report = of_examination(examine(inputs, on_step))
        except (ConfigError, PluginError) as error:
            _fail(str(error))
    if as_json:
        click.echo(json.dumps(report.json(), ensure_ascii=False, indent=2))
    else:
        click.echo(report.text(console(stderr=False)))
    raise SystemExit(report.exit_code)


def _of_log(name: str) -> Report:
    try:
        if name == "-":
            return read_log(_text(sys.stdin.buffer), "standard input")
        with Path(name).open("rb") as lines:
            return read_log(_text(lines), name)
    except OSError as error:
        _fail(f"cannot read {name}: {error.strerror}")
    except NoLogError as error:
        _fail(str(error))


def _text(lines: IO[bytes]) -> Iterator[str]:
    """Yield lines of a sane length: a binary file may have one of a gigabyte."""
    while line := lines.readline(1 << 16):
        yield line.decode("utf-8", "replace")


def _url(text: str) -> str:
    try:
        return checked_url(text)
    except DemoError as error:
        _fail(str(error))


def _headers(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()):
        _fail("--api-key: a key is printable ASCII")
    return {"Authorization": f"Bearer {key}", "X-Api-Key": key}


@contextmanager
def _progress() -> Iterator[tuple[OnStep, Ask]]:
    """Say on standard error what is being done, and ask there, if that is a terminal."""
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield (lambda _: None), (lambda _: False)
        return
    with terminal.status("") as status:

        def ask(question: str) -> bool:
            if not sys.stdin.isatty():
                return False
            status.stop()
            for line in textwrap.wrap(question, terminal.width, break_on_hyphens=False):
                terminal.print(line, markup=False)
            answer = click.confirm("Send them?", default=False, err=True)
            status.start()
            return answer

        yield status.update, ask


def _fail(message: str) -> NoReturn:
    click.echo(f"cacheproxy: {message}", err=True)
    raise SystemExit(2)
