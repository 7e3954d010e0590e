"""Keys of a terminal."""

from __future__ import annotations

import os
import pty
import termios
import threading

import pytest

from cacheproxy.top.keys import Keys, NoKeys, View, read_keys

NAMES = ["a/1", "a/2", "a/3"]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"jq", ["j", "q"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b", ["escape"]),
        (b"\r\n\x7f\b", ["enter", "enter", "backspace", "backspace"]),
        ("é客".encode(), ["é", "客"]),
        (b"\x1b[5~\x1b[1;5C\x1b[<0;3;4M\t\x00", []),
        (b"\xff\xfe", []),
    ],
)
def test_what_was_pressed(data, keys):
    assert list(read_keys(data)) == keys


@pytest.fixture
def ends():
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def test_keys_come_at_once_and_the_terminal_is_as_before(ends):
    ours, theirs = ends
    before = termios.tcgetattr(theirs)
    with Keys(theirs) as keys:
        os.write(ours, b"\x1aj")  # Ctrl-Z, and a key
        assert keys.wait() == ["j"]
        mode = termios.tcgetattr(theirs)[3]
        assert not mode & (termios.ECHO | termios.ICANON)
        assert mode & termios.ISIG
    assert termios.tcgetattr(theirs) == before


def test_a_key_whose_bytes_come_late_is_one_key(ends, monkeypatch):
    ours, theirs = ends
    with Keys(theirs) as keys:
        os.write(ours, b"\x1b")
        assert keys.wait() == ["escape"]
        monkeypatch.setattr("cacheproxy.top.keys._REST", 60.0)
        os.write(ours, b"\x1b[")
        rest = threading.Timer(0.01, os.write, (ours, b"A"))
        rest.start()
        assert keys.wait() == ["up"]
        rest.join()


@pytest.mark.parametrize("made", [Keys, NoKeys])
def test_waiting_ends_where_there_is_something_new(ends, made):
    waiting = made(ends[1]) if made is Keys else made()
    with waiting as keys:
        threading.Thread(target=keys.wake).start()
        assert keys.wait() == []
        for _ in range(100_000):
            keys.wake()  # more than a pipe holds
        assert keys.wait() == []


def test_a_terminal_that_is_gone_is_left():
    ours, theirs = pty.openpty()
    with Keys(theirs) as keys:
        os.close(ours)
        assert keys.wait() == ["q"]
    os.close(theirs)


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
