"""``cacheproxy top``: conversations, running prompts and breaks, live in a terminal."""

from __future__ import annotations

import io
import signal
import sys
from dataclasses import replace

import click
from rich.console import Console, Group
from rich.live import Live

from cacheproxy.cli.progress import console
from cacheproxy.cli.running import get_json, proxy_url
from cacheproxy.cli.settings import (
    OneLine,
    config_option,
    json_option,
    print_json,
    proxy_option,
    read_settings,
)
from cacheproxy.http_client import Site, checked_url, shown
from cacheproxy.http_client import proxy_option as option_for
from cacheproxy.top.keys import View, waiting
from cacheproxy.top.screen import ScreenPlace, lines, ordered
from cacheproxy.top.watch import Watch, Watcher
from cacheproxy.totals.windows import WINDOWS

_SHOWN = ("now", "upstream", "headline", "without", "prefills")


@click.command(cls=OneLine)
@proxy_option
@click.option(
    "--window",
    type=click.Choice(list(WINDOWS)),
    default="1h",
    show_default=True,
    help="How far to look back.",
)
@click.option(
    "--once",
    is_flag=True,
    help=("Print once and end; the default if the output is not a terminal."),
)
@config_option
@json_option
def top(*, proxy: str | None, window: str, once: bool, config: str | None, as_json: bool) -> None:
    """Watch the running proxy: conversations, prompts being read, and the last breaks.

    A line for each conversation: its turns, how much of its prompts was reused, the time saved.
    At the foot, what broke last, what it cost, and the command that fixes it. It works over ssh,
    in 60 columns or more, and reconnects after a restart of the proxy.

    Keys: j and k, or arrows, choose a conversation; enter shows its last turns, and escape goes
    back. / shows only conversations with a text in their names; escape shows all again. q leaves.
    """
    settings = read_settings(config)
    url, token = checked_url(proxy or proxy_url(settings)), settings.token_header()
    teller = Watcher(lambda path: get_json(url, path, token), window)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an encoding without arrows and bars
    terminal = Console(highlight=False)
    place = ScreenPlace(terminal.width, None, shown(url), window, option_for(url))
    if as_json:
        told = teller.all()
        data = {name: told.data[name] for name in _SHOWN}
        page = {name: told.page[name] for name in ("conversations", "count")}
        print_json({**data, **page, "breaks": told.breaks})
    elif once or not terminal.is_terminal or terminal.is_dumb_terminal:
        terminal = terminal if terminal.is_terminal else console(stderr=False)
        for line in lines(teller.all(), View(), replace(place, width=terminal.width)):
            terminal.print(line)
    else:
        _live(terminal, Site(url, token), teller, place)


def _live(terminal: Console, site: Site, teller: Watcher, place: ScreenPlace) -> None:
    """Show the screen until the user leaves; the terminal's state is restored in any case."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    if hasattr(signal, "SIGWINCH"):
        signal.signal(signal.SIGWINCH, lambda *_: None)  # so that it ends the wait for keys
    keys = waiting()
    view: View | None = View()
    watch = Watch(site, teller, keys.wake)
    try:
        with keys, watch, Live(console=terminal, screen=True, auto_refresh=False) as live:
            while view is not None:
                told = watch.latest
                place = replace(place, width=terminal.width, height=terminal.height)
                live.update(Group(*lines(told, view, place)), refresh=True)
                names = [each["id"] for each in ordered(told.page.get("conversations") or ())]
                for key in keys.wait():
                    view = view and view.pressed(key, names)
                if view is not None:
                    watch.look(view.search, view.opened)
    except KeyboardInterrupt:
        return
