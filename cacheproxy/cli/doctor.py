"""``cacheproxy doctor``: is the cache working, and if not, what is wrong."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from cacheproxy.cli.progress import console
from cacheproxy.cli.running import proxy_url
from cacheproxy.cli.settings import (
    OneLine,
    api_key_option,
    fail,
    json_option,
    key_headers,
    print_json,
    proxy_option,
    read_settings,
    rules_options,
)
from cacheproxy.core.kinds.known import EXAMPLE
from cacheproxy.doctor.examine import Inputs, OnStep, examine
from cacheproxy.doctor.guard import Ask
from cacheproxy.doctor.report import DoctorReport, report_of
from cacheproxy.doctor.server_log import read as read_log
from cacheproxy.http_client import checked_url


@click.command(cls=OneLine)
@proxy_option
@click.option(
    "--upstream",
    metavar="URL",
    help="The model server to check; by default the one the proxy sends to.",
)
@click.option(
    "--server-log", metavar="FILE", help=f"Read a {EXAMPLE.name} log instead; - for stdin."
)
@api_key_option
@click.option("--model", help="The model to ask for; by default the first one the server lists.")
@click.option(
    "--send/--no-send",
    default=None,
    help=(
        "Send test prompts without asking, or send none. By default doctor asks first where they "
        "may push out a conversation."
    ),
)
@rules_options
@json_option
def doctor(
    *,
    proxy: str | None,
    upstream: str | None,
    server_log: str | None,
    api_key: str | None,
    model: str | None,
    send: bool | None,
    config: str | None,
    plugin: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check whether the prompt cache works, what is wrong, and how to fix it.

    Asks the proxy and the model server what they are and what they did: the turns of the last hour
    say whether the cache works. Then it sends the server a made-up prompt of about 600 tokens (more
    where the server keeps large blocks), five or six times on each API, to see what is reused with
    the rules and without. That costs two or three short prefills on each API. It also has the
    server render a few dozen words, which evaluates nothing. The proxy keeps all this out of its
    records.

    If the test prompts might push a conversation out of llama-server's slots, doctor asks first;
    where it cannot ask, it does not send them. --send and --no-send answer beforehand. With
    --server-log it reads that file, and asks and sends nothing.

    The exit code is 0 if nothing FAILs, 1 if something does, 2 if nothing can be said.
    """
    if server_log is not None:
        report = _of_log(server_log)
    else:
        settings = read_settings(config, plugin)
        checked_url(settings.upstream)
        with _progress() as (on_step, ask):
            inputs = Inputs(
                config=settings,
                proxy=checked_url(proxy or proxy_url(settings)),
                upstream=checked_url(upstream) if upstream is not None else None,
                environ=os.environ,
                home=Path.home(),
                headers=key_headers(api_key),
                token=settings.token_header(),
                model=model,
                send=send,
                ask=ask,
            )
            report = report_of(*examine(inputs, on_step))
    if as_json:
        print_json(report.json(), ascii_only=False)
    else:
        click.echo(report.text(console(stderr=False)))
    raise SystemExit(report.exit_code)


def _of_log(name: str) -> DoctorReport:
    """Return the report on the log ``name``, ``-`` for stdin; ends the command on a read error."""
    try:
        with click.open_file(name, "rb") as lines:
            return read_log(_text(lines), "standard input" if name == "-" else name)
    except OSError as error:
        fail(f"cannot read {name}: {error.strerror}")


def _text(lines: IO[bytes]) -> Iterator[str]:
    """Yield the log's lines, decoded; one over 64 KiB, as in a binary file, comes in pieces."""
    while line := lines.readline(1 << 16):
        yield line.decode("utf-8", "replace")


@contextmanager
def _progress() -> Iterator[tuple[OnStep, Ask]]:
    """Yield two callbacks, which show progress and ask questions on standard error.

    The second returns the answer. Without a terminal they do nothing, and the answer is no.
    """
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
