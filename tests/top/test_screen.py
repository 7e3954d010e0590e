"""What ``cacheproxy top`` shows, made of what the proxy told (screen.txt)."""

import io
import re
import time

import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from cacheproxy.top.keys import View
from cacheproxy.top.screen import lines, ordered
from tests import transcript

from .told import BREAK, NOW, conversation, place, told, turn


def shown(found, view=None, where=None):
    return [line.plain for line in lines(found, view or View(), where or place())]


PREFILL = {
    "session": "claude/3f9a",
    "turn": 15,
    "done": 8200,
    "total": 18211,
    "seconds": 12.4,
    "to_go": 130.0,
    "held": False,
    "conversation": "claude/3f9a77",
}
UNKNOWN = PREFILL | {"done": None, "total": None, "to_go": None}
MANY = [conversation(f"c/{n:05}") for n in range(50)]
CURE = BREAK["known"]["cure"]
ONE = {
    "conversation": conversation(),
    "turns": [
        *(turn(n) for n in range(1, 99)),
        turn(100, reason="system_changed", verdict="break"),
        turn(0, kind="failed", status=500),
        turn(101, verdict="-", waited="after 300 s of prefill (64%)", prompt=None),
    ],
    "branches": [{"conversation": conversation("claude/77b0", turns=1), "turns": []}],
}
TREE = [
    *(conversation("a/c", root="a/b"), conversation("a/d"), conversation("a/b")),
    *(conversation("a/x", root="a/y"), conversation("a/z", root="a/c")),
]
OPENED = View("claude/3f9a77", is_opened=True)


def seen(found, view=None, where=None):
    return re.sub(r"\n{4,}", "\n\n⋮\n\n", "\n".join(shown(found, view, where)))


def test_what_is_shown(monkeypatch):
    monkeypatch.setattr(time, "localtime", time.gmtime)
    transcript.holds("screen.txt", globals())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (9.9, "9.9 s"), (59, "59 s"), (150, "2 min"), (7300, "2 h"), (9e5, "10 d")],
)
def test_times_are_said_in_their_largest_unit(seconds, said):
    (line,) = (one for one in shown(told(conversation(last=NOW - seconds))) if "claude/3f9a" in one)
    assert line.endswith(f" {said}")


def test_conversations_that_say_they_work_for_each_other_are_in_the_list():
    """Clients name the one that they work for."""
    assert [each["id"] for each in ordered(TREE)] == ["a/d", "a/b", "a/c", "a/z", "a/x"]
    rows = [conversation("a/b", root="a/c"), conversation("a/c", root="a/b"), conversation("a/d")]
    assert sorted(each["id"] for each in ordered(rows)) == ["a/b", "a/c", "a/d"]


@pytest.mark.parametrize(
    ("width", "height"), [(60, 12), (80, 24), (96, 30), (140, 50), (20, 5), (1, 5)]
)
def test_no_line_is_wider_than_the_terminal(width, height):
    rows = [conversation(f"客户端/{n:05}对话", model="m" * 90) for n in range(50)]
    found = told(*rows, breaks=(BREAK,) * 3, count=5000)
    for view in (View(), View(rows[3]["id"], is_opened=True), View(search="x" * 99)):
        seen = shown(found, view, place(width, height))
        assert max(map(cell_len, seen)) <= width
        assert len(seen) == height or height < 20


def test_all_are_printed_where_nobody_chooses():
    found = shown(told(*MANY), View(), place(96, None))
    assert sum("c/" in line for line in found) == 50
    assert not any("▸" in line or "q leave" in line for line in found)


def test_names_cannot_command_the_terminal():
    row = conversation("a/\x1b[2J[red]b\u202e", model="\x07\r[/]", root=None)
    one = {"conversation": row, "turns": [], "branches": []}
    for view in (View(), View(row["id"], is_opened=True)):
        seen = "".join(shown(told(row, one=one, trouble="\x1b]0;x\x07"), view, place(140)))
        assert not set(seen) & {"\x1b", "\x07", "\r", "\u202e"}


def test_without_colour_no_colour_is_sent():
    """https://no-color.org: what colour says, words say, too."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, _environ={"NO_COLOR": "1"})
    console.print(Group(*lines(told(conversation(breaks=1), breaks=(BREAK,)), View(), place())))
    assert "\x1b[3" not in written.getvalue()
    assert "▸ claude/3f9a" in written.getvalue()
