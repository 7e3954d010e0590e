"""Keys of a terminal (keys.txt)."""

import os
import pty
import termios
import threading

import pytest

from cacheproxy.top.keys import Keys, NoKeys, View, read_keys
from tests import transcript


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


def after(*keys, names=("a/1", "a/2", "a/3")):
    view = View()
    for key in keys:
        view = view.pressed(key, names)
    return view


def test_what_was_pressed_and_what_it_makes_of_the_view():
    transcript.holds("keys.txt", globals() | {"read_keys": read_keys})


def test_it_stays_chosen_where_the_list_is_sorted_anew():
    assert View("a/1").place(["a/9", "a/1"]) == 1
    assert View("gone").place(["a/9", "a/1"]) == 0
    assert View("a/2", is_opened=True).opened == "a/2"
    assert View("a/2").opened is None
