"""The screen of ``cacheproxy top``: lines, cut to the terminal's width, from the proxy's pages.

They are cut here, since rich's Table measures every cell again each time.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.judge.explain import PHRASES, phrase
from cacheproxy.top.keys import View
from cacheproxy.top.watch import Watched
from cacheproxy.totals.windows import WINDOWS
from cacheproxy.words import count, counted, share, span, visible

Json = Mapping[str, Any]

_NAME, _LEAST_NAME = 18, 8
_MOST_RUNNING = 4
_STANDING = {"working": "green", "hitches": "yellow", "breaking": "red"}
_KEYS = "q leave   j k choose   enter its turns   / filter"
_NONE_YET = "No conversation in the last {}. Point an agent at {}: cacheproxy env"
_NOT_FOUND = "No conversation in the last {} has {!r} in its names. escape: all of them"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str  #: heading
    width: int  #: characters
    cell: Callable[[Json], str]  #: makes a row's text
    least: int = 0  #: width of the terminal, in characters, below which the column is left out


@dataclass(frozen=True, slots=True)
class ScreenPlace:
    """Where the screen is shown, and for which proxy."""

    width: int  #: the terminal's columns
    height: int | None  #: the terminal's lines, None if all is printed at once
    url: str  #: the proxy's URL
    window: str  #: the window of time, as the page names it
    option: str = ""  #: option with which a command finds the proxy


def lines(seen: Watched, view: View, place: ScreenPlace) -> list[Text]:
    """Return the screen's lines, at most ``place.height`` of them; all if that is None."""
    head = [*_head(seen, place), *_running(seen, place)]
    foot = [*_foot(seen, view, place)]
    room = None if place.height is None else max(3, place.height - len(head) - len(foot))
    body = _turns(seen, view, place, room) if view.is_opened else _list(seen, view, place, room)
    if room is not None:
        body += [Text()] * (room - len(body))
    shown = head + body[:room] + foot
    for line in shown:
        line.no_wrap, line.overflow = True, "ellipsis"
        line.truncate(place.width, overflow="ellipsis")
    return shown


def ordered(conversations: Sequence[Json]) -> list[Json]:
    """Return the conversations, each subagent's right behind its parent's, if that is listed."""
    names = {each["id"] for each in conversations}
    branches: dict[str, list[Json]] = {}
    for each in conversations:
        if each["root"] in names - {each["id"]}:
            branches.setdefault(each["root"], []).append(each)
    found: list[Json] = []
    waiting = [each for each in reversed(conversations) if each["root"] not in names]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += reversed(branches.pop(each["id"], []))
    return found + [each for lost in branches.values() for each in lost]


def label(row: Json) -> str:
    """Return a conversation's name as in the log: ``client/session``, with a short id."""
    return visible(Session(str(row["client"]), str(row["session"])).label)


def _head(seen: Watched, place: ScreenPlace) -> Iterator[Text]:
    """Yield the first lines: proxy and server, trouble if there is any, and the verdict."""
    data = seen.data
    upstream = data.get("upstream") or {}
    server = (upstream.get("server") or {}).get("summary") or ""
    where = f"{place.url} → {upstream['url']}" if upstream else place.url
    title = Text("cacheproxy", "bold").append(f"  {visible(where)}", "default not bold")
    state = upstream.get("state", "").removeprefix("unknown")
    title.append(f"  {visible(' '.join(filter(None, (server, state))))}", "dim not bold")
    yield title
    if seen.trouble:
        yield Text(f"! {visible(seen.trouble)}", "bold red")
    if data:
        yield _verdict(data, place)


def _verdict(data: Json, place: ScreenPlace) -> Text:
    """Return the line with the share reused, and the breaks, of the window."""
    headline, without = data["headline"], data["without"]
    line = Text(headline["title"], f"bold {_STANDING.get(headline['standing'], '')}".strip())
    if headline["share"] is not None:
        line.append(f"  {share(headline['share'])} reused", "default not bold")
        if without is not None:
            line.append(f", directly ≈{share(without)}", "default not bold")
    sums = data["overview"]["sums"]
    seen = f"  {counted(sums['breaks'], 'break')}" if sums["breaks"] else "  no breaks"
    seen += f", {count(sums['lost'])} tokens" if sums["lost"] else ""
    return line.append(f"{seen}  last {WINDOWS[place.window].name}", "dim not bold")


def _running(seen: Watched, place: ScreenPlace) -> Iterator[Text]:
    """Yield a line for each of the first four running requests: progress, or what it waits for."""
    prefills = _prefills(seen)
    for each in prefills[:_MOST_RUNNING]:
        other = visible(each.get("waits_for") or "")
        line = Text("reads  " if each["total"] else "waits  " if other else "runs   ", "dim")
        line.append(set_cell_size(f"{visible(each['session'])} #{each['turn']}", _NAME), "default")
        said = f" {span(each['seconds'])}{', held for a retry' if each['held'] else ''}"
        said += f" for {other}" if other else ""
        if each["total"]:
            part, wide = each["done"] / each["total"], 20 if place.width >= 100 else 8
            done = round(part * wide)
            line.append(f" {'█' * done}{'░' * (wide - done)} ", "cyan not dim")
            said = f"{part:4.0%} of {count(each['total'])} tokens,{said}"
            if each["to_go"] is not None:
                said += f", ≈{span(each['to_go'])} to go"
        yield line.append(said, "not dim")
    if len(prefills) > _MOST_RUNNING:
        yield Text(f"       and {len(prefills) - _MOST_RUNNING} more requests", "dim")


def _prefills(seen: Watched) -> Sequence[Json]:
    """Return the running requests; none while the proxy does not report them."""
    return () if seen.trouble else seen.data.get("prefills") or ()


def _list(seen: Watched, view: View, place: ScreenPlace, room: int | None) -> list[Text]:
    """Return the list of conversations, at most ``room`` lines around the chosen one."""
    rows = ordered(seen.page.get("conversations") or ())
    when = WINDOWS[place.window].name
    if not rows:
        said = _NOT_FOUND.format(when, view.search) if view.search else ""
        said = said or (_NONE_YET.format(when, place.url) if seen.data else "")
        return [Text(), Text(said)]
    columns = _columns(seen, place.width)
    labels = [label(each) for each in rows]
    chosen = view.place([each["id"] for each in rows])
    first = 0 if room is None else max(0, min(chosen - (room - 2) // 2, len(rows) - (room - 2)))
    shown = [Text(), Text(_line("  conversation", columns, place.width), "dim")]
    for index, row in enumerate(rows[first : None if room is None else first + room - 2], first):
        is_chosen = index == chosen and room is not None
        mark = "▸ " if is_chosen else "  "
        name = label(row) if labels.count(label(row)) == 1 else visible(row["id"])
        name = ("└ " if row["root"] else "") + name
        style = "reverse" if is_chosen else "yellow" if row["breaks"] else ""
        shown.append(Text(_line(mark + name, columns, place.width, row), style))
    return shown


def _columns(seen: Watched, width: int) -> list[Column]:
    """Return the columns of the list that a terminal of ``width`` characters shows."""
    now, running = seen.data["now"], {each["conversation"] for each in _prefills(seen)}

    def last(row: Json) -> str:
        return "now" if row["id"] in running else span(max(0.0, now - row["last"]))

    found = (
        Column("turns", 6, lambda row: count(row["turns"])),
        Column("reused", 8, _reused),
        Column("context", 10, lambda row: count(row["context"])),
        Column("saved", 11, _saved, 76),
        Column("breaks", 7, lambda row: count(row["breaks"])),
        Column("lost", 10, lambda row: count(row["lost"]), 90),
        Column("last", 7, last),
        Column("model", 22, lambda row: visible(row["model"] or ""), 116),
        Column("prompts", 26, lambda row: _spark(row["recent"]), 130),
    )
    return [each for each in found if width >= each.least]


def _reused(row: Json) -> str:
    """Return the share of prompt tokens that was reused, ``-`` if it is not known."""
    known = (row["reused"] or 0) + (row["evaluated"] or 0)
    return share((row["reused"] or 0) / known) if known else "-"


def _saved(row: Json) -> str:
    """Return the time saved: ``≈3 min``, ``-`` for none."""
    seconds = row["saved_seconds"]
    return f"≈{span(seconds)}" if seconds else "-"


def _spark(prompts: Sequence[int]) -> str:
    """Return a bar for each of ``prompts``, in proportion to the largest."""
    most = max(prompts, default=0) or 1
    return "".join("▁▂▃▄▅▆▇█"[min(7, 8 * each // (most + 1))] for each in prompts)


def _turns(seen: Watched, view: View, place: ScreenPlace, room: int | None) -> list[Text]:
    """Return the lines on the opened conversation: names, subagents, the last turns in ``room``."""
    one = seen.one
    if one is None or one["conversation"]["id"] != view.opened:
        return [Text(), Text("asking for its turns …")]
    about = one["conversation"]
    names = (about["id"], about["model"], about["upstream"])
    head = [Text(), Text("  ".join(visible(each) for each in names if each), "bold")]
    branches = ", ".join(
        f"{label(each['conversation'])} ({counted(each['conversation']['turns'], 'turn')})"
        for each in one["branches"]
    )
    if branches:
        head.append(Text(f"its subagents: {branches}"))
    found = (
        Column("at", 10, lambda row: _clock(row["at"])),
        Column("prompt", 9, lambda row: count(row["prompt"])),
        Column("reused", 8, _reused),
        Column("new", 9, lambda row: count(row["evaluated"]), 70),
        Column("first", 8, lambda row: span(row["first_seconds"]), 96),
        Column("out", 7, lambda row: count(row["output"]), 110),
    )
    kept = [each for each in found if place.width >= each.least]
    rest = place.width - _NAME - sum(each.width for each in kept) + 10
    wide = max(10, rest)
    columns = [*kept, Column("", wide, lambda row: f"  {_verdict_of(row)}".ljust(wide))]
    head.append(Text(_line("  turn", columns, place.width), "dim"))
    rows = one["turns"] if room is None else one["turns"][-max(1, room - len(head)) :]
    for row in rows:
        name = f"  #{row['turn']}" if row["turn"] else "  -"
        style = "yellow" if row["reason"] else "red" if row["kind"] == "failed" else ""
        head.append(Text(_line(name, columns, place.width, row), style))
    return head


def _verdict_of(row: Json) -> str:
    """Return a turn's verdict in words: the break's cause, or how else it ended."""
    if row["waited"]:
        return f"client left {visible(row['waited'])}"
    if row["reason"]:
        word = "cut" if row["verdict"] == "cut" else "BREAK"
        return f"{word} {PHRASES.get(row['reason'], visible(row['reason']))}"
    return str(row["status"] if row["kind"] == "failed" else row["verdict"] or row["kind"])


def _line(name: str, columns: Sequence[Column], width: int, row: Json | None = None) -> str:
    """Return a table's line: ``name`` left-aligned in the room left, then right-aligned cells.

    The cells are those of ``row``, the headings if it is None.
    """
    room = max(_LEAST_NAME, width - sum(each.width for each in columns))
    text = set_cell_size(name if cell_len(name) < room else f"{name[: room - 2]}…", room)
    for each in columns:
        cell = each.title if row is None else each.cell(row)
        cut = set_cell_size(cell, min(each.width, cell_len(cell)))
        text += " " * (each.width - cell_len(cut)) + cut
    return text


def _foot(seen: Watched, view: View, place: ScreenPlace) -> Iterator[Text]:
    """Yield the last lines: the last breaks and, on a live screen, the search and the keys."""
    if seen.breaks:
        yield Text()
        yield Text("Last breaks", "dim")
    for each in seen.breaks:
        yield from _break(each, place)
    if place.height is None:
        return
    yield Text()
    if view.is_typing or view.search:
        yield Text(f"/{visible(view.search)}{'▏' if view.is_typing else ''}", "bold")
    shown, total = len(seen.page.get("conversations") or ()), seen.page.get("count") or 0
    more = f"   {shown} of {total:,} conversations" if shown < total else ""
    yield Text(("q leave   j k the next   escape back" if view.is_opened else _KEYS) + more, "dim")


def _break(row: Json, place: ScreenPlace) -> Iterator[Text]:
    """Yield the lines on a break: its time, turn, cause and cost; then the cure."""
    known = row["known"]
    cause = known.get("phrase") or phrase(row["reason"], row["shape"])
    turn = f"{label(row)} #{row['turn']}" if row["client"] else "?"
    line = Text(f"{_clock(row['at'])} ", "yellow").append(f"{turn}  {visible(cause)}", "default")
    cost = f"{count(row['lost'])} tokens"
    if row["lost_seconds"] is not None:
        cost += f", ≈{span(row['lost_seconds'])}"
    room = place.width - cell_len(cost) - 2
    line.truncate(room, overflow="ellipsis", pad=True)
    yield line.append(f"  {cost}", "bold")
    wide = max(1, place.width - 2)
    for part in textwrap.wrap(_cure(known, row, place), wide, break_on_hyphens=False):
        yield Text(f"  {part}", "cyan")


def _cure(known: Json, row: Json, place: ScreenPlace) -> str:
    """Return what to do about a break: its cure, already on or as a command, or where to look."""
    cure = known.get("cure")
    if cure and cure["applied"]:
        return f"cured: {visible(cure['rule'])} is on"
    if cure and cure["applicable"]:
        return f"cure: {visible(cure['command'])}"
    if known:
        return f"why: cacheproxy diagnose {row['number']}{place.option}"
    return "the proxy no longer has more about this break"


def _clock(seconds: float) -> str:
    """Return the local time for seconds since the epoch: ``21:05:09``."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))
