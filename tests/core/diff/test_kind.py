"""What kind of change it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.diff.kind import ChangeKind, masked, token_at
from cacheproxy.core.document.compare import common_prefix

PAIRS = [
    (
        ChangeKind.UUID,
        "775b2410-8917-4fad-af9d-0123456789ab",
        "775b2410-8917-4fad-af9d-0123456789ac",
    ),
    (
        ChangeKind.UUID,
        "01A1FCA3-3E90-7181-B54E-95F467F0F936",
        "11A1FCA3-3E90-7181-B54E-95F467F0F936",
    ),
    (ChangeKind.CLOCK, "20:48", "20:49"),
    (ChangeKind.CLOCK, "8:05 PM", "8:06 PM"),
    (ChangeKind.CLOCK, "2026-02-18 20:48 UTC", "2026-02-18 20:49 UTC"),
    (ChangeKind.CLOCK, "Wed 2026-02-18 20:48 UTC", "Thu 2026-02-19 00:01 UTC"),
    (ChangeKind.CLOCK, "2026-11-21T10:00:00.123Z", "2026-11-21T10:00:01.001Z"),
    (ChangeKind.CLOCK, "12:04:31", "12:05:10"),
    (ChangeKind.DATE, "2026-11-21", "2026-11-22"),
    (ChangeKind.DATE, "11/21/2026", "11/22/2026"),
    (ChangeKind.DATE, "Sat Nov 21 2026", "Sun Nov 22 2026"),
    (ChangeKind.DATE, "Saturday, November 21, 2026", "Sunday, November 22, 2026"),
    (ChangeKind.DATE, "21 November 2026", "1 December 2026"),
    (ChangeKind.DATE, "October 2026", "November 2026"),
    (ChangeKind.PATH, "/home/me/one", "/home/me/two"),
    (ChangeKind.PATH, "~/src/one.x", "~/src/another"),
    (ChangeKind.PATH, r"C:\work\one", r"C:\work\two"),
    (ChangeKind.COUNTER, "9", "10"),
    (ChangeKind.COUNTER, "6678", "6679"),
    (ChangeKind.NONCE, "2ca14", "2e76d"),
    (ChangeKind.NONCE, "01265", "be1f7"),
    (ChangeKind.NONCE, "9A3F", "9B3F"),
    (ChangeKind.NONCE, "d9e3c68" * 5, "7a051a8" * 5),
]


@pytest.mark.parametrize(("kind", "was", "now"), PAIRS)
@pytest.mark.parametrize(
    "around", [("", ""), ("at ", " now"), ('"id": "', '",'), ("[", "] hi"), ("x=", ";")]
)
def test_a_token_is_found_whole_wherever_it_stands(kind, was, now, around):
    before, after = around
    texts = before + was + after, before + now + after
    at = common_prefix(*texts)
    token = token_at(*texts, at, at)
    assert token.kind is kind
    assert texts[0][slice(*token.was)] == was
    assert texts[1][slice(*token.now)] == now
    assert masked(texts[0]) == masked(texts[1])


@pytest.mark.parametrize(
    ("was", "now"), [("main", "next"), ("v2", "v3"), ("a 12", "a b"), ("", "12"), ("Nov", "Dec")]
)
def test_words_have_no_shape(was, now):
    at = common_prefix(was, now)
    assert token_at(was, now, at, at) is None


STATUS = "Git status:\n M a.py\n?? b.py\n"
COMMITS = "Recent commits:\n7a051a8 Add a\n1e99cfe Begin\n"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (STATUS, STATUS + "?? c.py\n"),
        (STATUS, "Git status:\n?? b.py\n"),
        (STATUS, "Git status:\n(clean)\n"),
        (COMMITS, "Recent commits:\nfd0ef95 Do\n7a051a8 Add a\n"),
        (f"{STATUS}?? 2026-11-21.md\n", f"{STATUS}?? 2026-11-22.md\n"),
    ],
)
@pytest.mark.parametrize("after", ["", "\nand so on"])
def test_lines_of_a_git_status_are_one_token_however_many_they_are(was, now, after):
    texts = was + after, now + after
    at = common_prefix(*texts)
    token = token_at(*texts, at, at)
    assert token.kind is ChangeKind.GIT
    assert texts[0][slice(*token.was)] == was.partition("\n")[2].rstrip()
    assert texts[1][slice(*token.now)] == now.partition("\n")[2].rstrip()


def test_lines_that_only_look_like_one_have_no_shape():
    """Something above them has to say what they are."""
    texts = "To do:\nM a\nD b\n", "To do:\nM a\nD c\n"
    at = common_prefix(*texts)
    assert token_at(*texts, at, at) is None


@given(st.text(max_size=60), st.text(max_size=60), st.data())
def test_nothing_raises(was, now, data):
    at = data.draw(st.integers(0, len(was)))
    by = data.draw(st.integers(0, len(now)))
    token = token_at(was, now, at, by)
    if token is not None:
        assert was[slice(*token.was)] != now[slice(*token.now)]
    masked(was)


def test_what_stands_further_off_is_not_the_token():
    text = "12:30 " + "word " * 40
    assert token_at(text + "a", text + "b", len(text), len(text)) is None


def test_each_line_of_a_git_status_is_looked_at_once():
    """Else a long one takes hours."""
    text = "git status:\n" + " M a.py\n" * 200_000
    token = token_at(text, f"{text}?? b.py\n", len(text), len(text))
    assert token.now == (12, len(text) + 7)
