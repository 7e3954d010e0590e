"""The terminal of a long command: a bar on standard error, and lines no wider than easily read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

WIDTH = 96


@contextmanager
def progress_bar(steps: int, *, lines: bool = False) -> Iterator[Callable[[str, int], None]]:
    """Show a progress bar on standard error, if that is a terminal.

    What it yields takes what is being done, and how many of ``steps`` were done since. ``lines``:
    where it is no terminal, each of these is a line, at once.
    """
    terminal = console(stderr=True)
    if lines and not terminal.is_terminal:
        yield lambda doing, _: click.echo(doing, err=True)  # it flushes
        return
    columns = (TextColumn("{task.description:<36}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=terminal, transient=True, disable=not terminal.is_terminal
    ) as progress:
        task = progress.add_task("", total=steps)
        yield lambda doing, done: progress.update(task, description=doing, advance=done)


def console(*, stderr: bool) -> Console:
    """Return the console, wide enough for a table even where nobody looks."""
    terminal = Console(stderr=stderr, highlight=False)
    terminal.width = min(WIDTH, terminal.width) if terminal.is_terminal else WIDTH
    return terminal
