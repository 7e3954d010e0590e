"""Terminal output of long commands: a progress bar on standard error, and readable line widths."""

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

    Yields a callback that takes the description of the current step, and how many of ``steps`` were
    finished since the last call. ``lines``: print each description as a line if it is no terminal.
    """
    terminal = console(stderr=True)
    if lines and not terminal.is_terminal:
        yield lambda doing, _: click.echo(doing, err=True)  # click flushes at once
        return
    columns = (TextColumn("{task.description:<36}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=terminal, transient=True, disable=not terminal.is_terminal
    ) as progress:
        task = progress.add_task("", total=steps)
        yield lambda doing, done: progress.update(task, description=doing, advance=done)


def console(*, stderr: bool) -> Console:
    """Return a console of at most 96 columns; of just as many where it is no terminal."""
    terminal = Console(stderr=stderr, highlight=False)
    terminal.width = min(WIDTH, terminal.width) if terminal.is_terminal else WIDTH
    return terminal
