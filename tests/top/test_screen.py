"""What ``cacheproxy top`` shows, made of what the proxy told."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from cacheproxy.top.keys import View
from cacheproxy.top.screen import lines, ordered
from cacheproxy.top.watch import Watched

from .told import BREAK, NOW, conversation, place, told, turn


def shown(found, view=None, where=None):
    return [line.plain for line in lines(found, view or View(), where or place())]


def line_with(text, found, *more):
    (line,) = (each for each in shown(found, *more) if text in each)
    return line


def test_a_conversation_is_a_line():
    assert line_with("claude/3f9a", told(conversation())).split() == [
        *("▸", "claude/3f9a", "18", "97.0%", "20,702", "≈14", "min", "0", "1", "min")
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (9.9, "9.9 s"), (59, "59 s"), (150, "2 min"), (7300, "2 h"), (9e5, "10 d")],
)
def test_times_are_said_in_their_largest_unit(seconds, said):
    line = line_with("claude/3f9a", told(conversation(last=NOW - seconds)))
    assert line.endswith(f" {said}")


def test_what_is_not_known_is_not_said_to_be_nothing():
    row = conversation(reused=0, evaluated=0, context=None, saved_seconds=None)
    assert line_with("claude/3f9a", told(row)).split()[2:] == ["18", "-", "?", "-", "0", "1", "min"]


def test_the_verdict_stands_first():
    assert shown(told(conversation()))[1] == (
        "Cache works, with breaks  97.1% reused, directly ≈41.2%  3 breaks, 12,400 token…"
    )


def test_a_prompt_that_is_read_says_how_far_it_is():
    prefill = {"session": "claude/3f9a", "turn": 15, "done": 8200, "total": 18211, "seconds": 12.4}
    prefill["conversation"] = "claude/3f9a77"
    found = told(conversation(), conversation("pi/3f9a77"), data={"prefills": [prefill]})
    line = line_with("reads", found)
    assert "claude/3f9a #15" in line
    assert " 45% of 18,211 tokens, 12 s" in line
    assert line_with("▸", found).endswith(" now")
    assert line_with("  pi/3f9a", found).endswith(" 1 min")
    many = shown(told(conversation(), data={"prefills": [prefill] * 9}))
    assert sum("reads" in each for each in many) == 4
    assert any("and 5 more requests" in each for each in many)
    unknown = told(conversation(), data={"prefills": [prefill | {"done": None, "total": None}]})
    assert line_with("runs", unknown).split()[1:] == ["claude/3f9a", "#15", "12", "s"]


def test_a_break_says_cause_cost_and_command():
    found = shown(told(conversation(), breaks=(BREAK,)))
    (at,) = (i for i, line in enumerate(found) if "The system text changed (date)" in line)
    assert "claude/3f9a #15" in found[at]
    assert found[at].endswith("  16,293 tokens, ≈38 s")
    assert found[at + 1] == "  cure: cacheproxy diagnose 15 --propose --apply"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"cure": None}, "why: cacheproxy diagnose 15"),
        ({"cure": BREAK["known"]["cure"] | {"applicable": False}}, "why: cacheproxy diagnose 15"),
        ({"cure": BREAK["known"]["cure"] | {"applied": True}}, "cured: date-1 is on"),
        ({}, "the proxy no longer has more about this break"),
    ],
)
def test_where_there_is_nothing_to_apply_it_says_so(known, said):
    found = shown(told(conversation(), breaks=(BREAK | {"known": known},)))
    assert f"  {said}" in found
    assert any("The system text changed (date)" in line for line in found)


def test_subagents_stand_below_their_root():
    rows = [conversation(f"a/{name}", root=root) for name, root in (("c", "a/b"), ("d", None))]
    rows += [conversation("a/b"), conversation("a/x", root="a/y"), conversation("a/z", root="a/c")]
    assert [each["id"] for each in ordered(rows)] == ["a/d", "a/b", "a/c", "a/z", "a/x"]
    assert "  └ a/c" in line_with("a/c", told(*rows), View("a/d"))


def test_conversations_that_say_they_work_for_each_other_are_in_the_list():
    """Clients name the one that they work for."""
    rows = [conversation("a/b", root="a/c"), conversation("a/c", root="a/b"), conversation("a/d")]
    assert sorted(each["id"] for each in ordered(rows)) == ["a/b", "a/c", "a/d"]


def test_names_that_the_log_shortens_to_the_same_are_told_in_full():
    found = shown(told(conversation("pi/task1"), conversation("pi/task2"), conversation()))
    assert [line.split()[-8] for line in found[4:7]] == ["18"] * 3
    assert [line[2:14].strip() for line in found[4:7]] == ["pi/task1", "pi/task2", "claude/3f9a"]


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


def test_the_chosen_one_is_in_sight():
    rows = [conversation(f"c/{n:05}") for n in range(50)]
    for chosen in ("c/00000", "c/00031", "c/00049"):
        assert line_with("▸", told(*rows), View(chosen)).split()[1] == chosen
    assert "50 of 5,000 conversations" in shown(told(*rows, count=5000))[-1]


def test_all_are_printed_where_nobody_chooses():
    rows = [conversation(f"c/{n:05}") for n in range(50)]
    found = shown(told(*rows), View(), place(96, None))
    assert sum("c/" in line for line in found) == 50
    assert not any("▸" in line or "q leave" in line for line in found)


def test_an_opened_conversation_shows_its_last_turns():
    turns = [turn(n) for n in range(1, 100)]
    turns += [
        turn(100, reason="system_changed", verdict="break"),
        turn(0, kind="failed", status=500),
    ]
    branch = {"conversation": conversation("claude/77b0", turns=1), "turns": []}
    one = {"conversation": conversation(), "turns": turns, "branches": [branch]}
    found = shown(told(conversation(), one=one), View("claude/3f9a77", is_opened=True), place(140))
    assert "claude/3f9a77  qwen  http://localhost:8080" in found
    assert "its subagents: claude/77b0 (1 turn)" in found
    said = [line.split() for line in found if line.startswith("  #")]
    assert [words[0] for words in said][-2:] == ["#99", "#100"]
    assert said[-2][2:] == ["18,211", "98.8%", "211", "0.9", "s", "7", "ok"]
    assert said[-1][8:] == ["BREAK", "The", "system", "text", "changed"]
    other = shown(told(conversation(), one=one), View("claude/other", is_opened=True))
    assert any("asking for its turns" in line for line in other)


def test_trouble_is_said_and_what_was_known_stays():
    row = conversation()
    assert "! gone" in shown(told(row, trouble="gone"))
    assert line_with("claude/3f9a", told(row, trouble="gone"))
    assert "! asking" in shown(Watched(trouble="asking"))


def test_an_empty_list_says_why():
    assert any("No conversation in the last hour. Point" in line for line in shown(told()))
    found = shown(told(), View(search="zz"))
    assert any("has 'zz' in its names" in line for line in found)
    assert "/zz" in found


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
