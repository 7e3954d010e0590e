"""What a key makes of what the user looks at."""

from __future__ import annotations

import pytest

from cacheproxy.top.view import View

NAMES = ["a/1", "a/2", "a/3"]


def after(*keys, view=None, names=NAMES):
    view = view or View()
    for key in keys:
        view = view.pressed(key, names)
    return view


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("j", "a/2"),
        ("jj", "a/3"),
        ("jjjj", "a/3"),
        ("jjk", "a/2"),
        ("kk", "a/1"),
        (("down", "down", "up"), "a/2"),
    ],
)
def test_a_conversation_is_chosen(keys, chosen):
    assert after(*keys).chosen == chosen


def test_it_stays_chosen_where_the_list_is_sorted_anew():
    assert after("j", names=[*NAMES, "a/4"], view=after("jj"[0])).chosen == "a/3"
    assert View("a/1").place(["a/9", "a/1"]) == 1
    assert View("gone").place(NAMES) == 0


def test_enter_opens_it_and_escape_goes_back():
    opened = after("j", "enter")
    assert opened.opened == "a/2"
    assert after("j", view=opened).opened == "a/3"
    assert after("escape", view=opened) == after("enter", view=opened) == View("a/2")


def test_text_behind_a_slash_is_searched_for():
    assert after("/", *"jqx", "backspace").search == "jq"
    assert after("/", *"jqx").is_typing
    kept = after("/", *"jq", "enter")
    assert (kept.search, kept.is_typing) == ("jq", False)
    assert after("/", *"jq", "escape") == View()
    assert after("escape", view=kept).search == ""
    assert len(after("/", *"x" * 999).search) == 120
    assert after("/", "down", "é").search == "é"


def test_q_leaves():
    assert after("q") is None
    assert after("enter", "q") is None


def test_nothing_can_be_chosen_of_nothing():
    assert after("j", "enter", "k", "x", names=[]) == View()
