"""Keys of a terminal."""

import os
import pty
import termios
import threading
from dataclasses import replace

import pytest

from cacheproxy.top.keys import Keys, NoKeys, View, read_keys


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


SEARCH = View(search="jq")


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        # a conversation is chosen
        ("j", View("a/2")),
        ("jjjj", View("a/3")),
        ("jjk", View("a/2")),
        ("kk", View("a/1")),
        (("down", "down", "up"), View("a/2")),
        # enter opens it, and escape goes back
        (("j", "enter"), View("a/2", is_opened=True)),
        (("j", "enter", "j"), View("a/3", is_opened=True)),
        (("j", "enter", "escape"), View("a/2")),
        (("j", "enter", "enter"), View("a/2")),
        # text behind a slash is searched for
        (("/", *"jqx", "backspace"), replace(SEARCH, is_typing=True)),
        (("/", *"jq", "enter"), SEARCH),
        (("/", *"jq", "escape"), View()),
        (("/", *"jq", "enter", "escape"), View()),
        (("/", *"x" * 999), View(search="x" * 120, is_typing=True)),
        (("/", "down", "é"), View(search="é", is_typing=True)),
        # q leaves
        ("q", None),
        (("enter", "q"), None),
    ],
)
def test_what_keys_make_of_the_view(keys, view):
    assert after(*keys) == view


def after(*keys, names=("a/1", "a/2", "a/3")):
    view = View()
    for key in keys:
        view = view.pressed(key, names)
    return view


def test_it_stays_chosen_where_the_list_is_sorted_anew():
    assert View("a/1").place(["a/9", "a/1"]) == 1
    assert View("gone").place(["a/9", "a/1"]) == 0
    assert View("a/2", is_opened=True).opened == "a/2"
    assert View("a/2").opened is None


def test_nothing_can_be_chosen_of_nothing():
    assert after("j", "enter", "k", "x", names=[]) == View()
