"""Where two texts differ."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.diff.text import alike, hunks, kept_lines, share_of_words

words = st.sampled_from(
    ["one", "two", "3", "12:30", "\n", " ", "- ", "abc123", "2026-01-02", "é", ""]
)
texts = st.lists(words, max_size=12).map("".join)


def shown(was, now):
    return [(hunk.kind, was[slice(*hunk.was)], now[slice(*hunk.now)]) for hunk in hunks(was, now)]


@given(was=texts, now=texts)
@example(was="\n12:30", now="12:30\n\n")
@example(was="3", now="3\n")
def test_putting_the_new_in_place_of_the_old_gives_the_new(was, now):
    """Between the hunks the texts are equal, and they come in order."""
    built, at, by = "", 0, 0
    for hunk in hunks(was, now):
        assert hunk.was[0] >= at
        assert hunk.now[0] >= by
        assert was[at : hunk.was[0]] == now[by : hunk.now[0]]
        assert was[slice(*hunk.was)] != now[slice(*hunk.now)]
        built += was[at : hunk.was[0]] + now[slice(*hunk.now)]
        at, by = hunk.was[1], hunk.now[1]
    assert built + was[at:] == now


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ("same", "same", []),
        ("a 3fa2 b", "a 9912 b", [(ChangeKind.NONCE, "3fa2", "9912")]),
        ("n=9", "n=10", [(ChangeKind.COUNTER, "9", "10")]),
        ("first\nsecond", "first\nnew\nsecond", [(ChangeKind.ADDED, "", "new\n")]),
        ("first\nold\nsecond", "first\nsecond", [(ChangeKind.REMOVED, "old\n", "")]),
        ("hi", "hi\n\n# Rules\n1. foo", [(ChangeKind.ADDED, "", "\n\n# Rules\n1. foo")]),
        ("on branch main now", "on branch next now", [(ChangeKind.TEXT, "main", "next")]),
        ("l4", "l4 n=3", [(ChangeKind.ADDED, "", " n=3")]),
        (
            "l1\nat 12:00\nl3\nl4",
            "l1\nat 12:01\nnew\nl3\nl4",
            [(ChangeKind.CLOCK, "12:00", "12:01"), (ChangeKind.ADDED, "", "new\n")],
        ),
        (
            "Status:\n(clean)\n\nRecent\n1e99 x",
            "Status:\nM foo\n M bar\n\nRecent\n1e99 x",
            [(ChangeKind.GIT, "(clean)", "M foo\n M bar")],
        ),
    ],
)
def test_examples(was, now, expected):
    assert shown(was, now) == expected


def test_very_many_lines_are_one_hunk_and_fast():
    was, now = ("\n".join(f"{i} {side}" for i in range(3000)) for side in "ab")
    assert [hunk.kind for hunk in hunks(was, now)] == [ChangeKind.TEXT]


def test_what_is_alike():
    assert alike("", "")
    assert alike("the same words in a line", "the same words in one line")
    assert alike("Say it now", "Say it now\n\n" + "rules and rules " * 20)
    assert not alike("Ok.", "Ok, I will do that at once and tell you.")
    assert not alike("one thing", "quite another")
    assert share_of_words("a b c d", "a b x y") == 0.5
    assert share_of_words("", "") == 0
    assert share_of_words("a b\n" * 150_000, " a b " * 100_000) == 2 / 3, "some words at a time"


def test_of_long_texts_whole_lines_are_kept():
    """Wherever they stand, in whichever text."""
    assert kept_lines(["one\ntwo\n", "three\nfour"], ["four\nno", "two\none\n"]) == 8
    assert kept_lines(["one\ntwo"], ["one two"]) == 0
