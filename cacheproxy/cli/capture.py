"""``cacheproxy capture``: look at captures, and turn them into other programs' format."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import click

from cacheproxy.cli.settings import fail, json_option, plain, print_json, say, tell
from cacheproxy.configfile import replacing
from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.prompt.client import Clients
from cacheproxy.plugin.packages import Packages
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.files import Problem, read, read_each
from cacheproxy.record.har import to_har
from cacheproxy.units import version
from cacheproxy.words import counted

_EPOCH_BEGAN = 1e9
"""Seconds since the epoch (2001) below which a time counts from its recorder's start."""


@click.group()
def capture() -> None:
    """List captured exchanges, or export them.

    Captures are written by: cacheproxy serve --capture DIR
    """


@capture.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...")
@click.option("--har", required=True, metavar="OUT", help="HAR file to write; - for stdout.")
@json_option
def export(paths: tuple[str, ...], har: str, *, as_json: bool) -> None:
    """Write the captured exchanges as one HAR 1.2 file. It holds prompts, but no credentials."""
    records, problems = read(paths)
    size = 0
    if records:
        try:
            size = _write(har, json.dumps(to_har(records, version())).encode())
        except OSError as error:
            tell(problems)
            fail(f"cannot write {har}: {error.strerror}")
    if as_json:
        summary = {"exchanges": len(records), "har": har if records else None, "bytes": size}
        found = json.dumps(summary | {"problems": [*map(asdict, problems)]})
        click.echo(found, err=har == "-")  # not into a HAR on stdout
    elif records:
        click.echo(f"{counted(len(records), 'exchange')}, {size:,} bytes: {har}", err=har == "-")
    _end(problems, anything=bool(records))


@capture.command("list")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...")
@json_option
def list_(paths: tuple[str, ...], *, as_json: bool) -> None:
    """List the sessions of captures: their turns, requests and sizes."""
    found: dict[tuple[str, str], SessionRow] = {}
    problems: list[Problem] = []
    for each in read_each(paths):
        if isinstance(each, Problem):
            problems.append(each)
        else:
            name = _client_and_session(each)
            found.setdefault(name, SessionRow(*name)).add(each)
    rows = sorted(found.values(), key=lambda row: (row.first, row.client, row.session))
    if as_json:
        print_json({"sessions": [*map(asdict, rows)], "problems": [*map(asdict, problems)]})
    elif rows:
        _print_table(rows)
    _end(problems, anything=bool(rows))


@dataclass(slots=True)
class SessionRow:
    """A session of a capture, as one row of the list."""

    client: str  #: its name
    session: str  #: its id; "" for requests without a session
    turns: int = 0  #: turns of its conversation, without side requests
    requests: int = 0  #: all requests, side requests too
    bytes: int = 0  #: size of all bodies, both ways
    first: float = 0.0  #: time of the first request, as in ``Exchange.wall``
    last: float = 0.0  #: time of the last request

    def add(self, record: Exchange) -> None:
        """Add one exchange to the counts, sizes and times."""
        self.first = min(self.first, record.wall) if self.requests else record.wall
        self.last = max(self.last, record.wall)
        self.requests += 1
        self.turns += _is_turn(record)
        self.bytes += len(record.received.body) + len(record.response_body or b"")


def _is_turn(record: Exchange) -> bool:
    """Return whether an exchange is a turn; without a session, whether it has a prompt."""
    if record.session is not None:
        return record.turn > 0 and not record.side
    request = record.received
    return request.dialect is not None and endpoint_of(request.path).purpose.evaluates


def _client_and_session(record: Exchange) -> tuple[str, str]:
    """Return the client's name and the session's id ("" for none), as recorded, else found out."""
    if record.session is not None:
        return record.session.client, record.session.id
    request = _clients().introduce(record.received)
    session = session_of(request)
    return session.client, session.id if request.dialect is not None else ""


@cache
def _clients() -> Clients:
    """Return the installed clients, which recognise requests in other tools' captures."""
    return Packages().load().clients


def _print_table(rows: list[SessionRow]) -> None:
    """Print a line for each session, and the totals."""
    names = [plain(row.client)[:20] for row in rows]
    clients = max(len("client"), *(len(name) for name in names))
    click.echo(f"{'client':<{clients}}  {'session':<36}  turns  reqs      size  when")
    for client, row in zip(names, rows, strict=True):
        name = plain(row.session) or "requests without a session"
        shown = name if len(name) <= 36 else f"{name[:35]}…"
        click.echo(
            f"{client:<{clients}}  {shown:<36}  {row.turns:>5}  {row.requests:>4}  "
            f"{_size(row.bytes):>8}  {_when(row)}"
        )
    requests, total = sum(row.requests for row in rows), sum(row.bytes for row in rows)
    sessions = sum(bool(row.session) for row in rows)
    found = f"{counted(sessions, 'session')}, {counted(requests, 'request')}"
    click.echo(f"\n{found}, {_size(total)} of bodies")


def _size(count: int) -> str:
    """Return a number of bytes for people: ``999 B``, ``1.2 MB``."""
    size, unit = float(count), "B"
    for larger in ("KB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _when(row: SessionRow) -> str:
    """Return when a session began, where that is known, and its length: ``28 Nov 21:05, 12 s``."""
    lasted = row.last - row.first
    length = f"{lasted / 60:,.0f} min" if lasted >= 120 else f"{lasted:,.0f} s"
    if row.first < _EPOCH_BEGAN:
        return length
    return f"{time.strftime('%d %b %H:%M', time.localtime(row.first))}, {length}"


def _write(path: str, data: bytes) -> int:
    """Write ``data`` to the file ``path``, or stdout for ``-``; return its size. Raises OSError.

    A file is replaced as a whole, readable by the user alone; a pipe or a device is written to.
    """
    if path == "-":
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
        return len(data)
    target = Path(path)
    if target.exists() and not target.is_file():  # a pipe or device cannot be replaced
        target.write_bytes(data)
        return len(data)
    with replacing(target, data):
        return len(data)


def _end(problems: list[Problem], *, anything: bool) -> None:
    """Print ``problems``; end with exit code 2 if there are any, or not ``anything`` was found."""
    tell(problems)
    if not problems and not anything:
        say("it holds no exchange")
    if problems or not anything:
        raise SystemExit(2)
