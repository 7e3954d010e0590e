"""What kind of change it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.diff.kind import ChangeKind, masked, token_at
from cacheproxy.core.document.compare import common_prefix
from tests import transcript

UUID = "775b2410-8917-4fad-af9d-0123456789a"
PAIRS = [
    (ChangeKind.UUID, f"{UUID}b", f"{UUID}c"),
    (ChangeKind.UUID, f"0{UUID.upper()[1:]}B", f"1{UUID.upper()[1:]}B"),
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
def test_a_token_is_found_whole_wherever_it_stands(kind, was, now):
    for around in ("%s", "at %s now", '"id": "%s",', "[%s] hi", "x=%s;"):
        texts = around % was, around % now
        assert found(*texts) == (kind, was, now), around
        assert masked(texts[0]) == masked(texts[1])


def found(was, now):
    """The token where two texts part: its kind, and what it was and is."""
    at = common_prefix(was, now)
    token = token_at(was, now, at, at)
    return token and (token.kind, was[slice(*token.was)], now[slice(*token.now)])


@pytest.mark.parametrize(
    ("was", "now"),
    [
        *(("main", "next"), ("v2", "v3"), ("a 12", "a b"), ("", "12"), ("Nov", "Dec")),
        ("To do:\nM a\nD b\n", "To do:\nM a\nD c\n"),  # something above says what lines are
        ("12:30 " + "word " * 40 + "a", "12:30 " + "word " * 40 + "b"),  # it stands further off
    ],
)
def test_words_have_no_shape(was, now):
    assert found(was, now) is None


@given(st.text(max_size=60), st.text(max_size=60), st.data())
def test_nothing_raises(was, now, data):
    at = data.draw(st.integers(0, len(was)))
    by = data.draw(st.integers(0, len(now)))
    token = token_at(was, now, at, by)
    if token is not None:
        assert was[slice(*token.was)] != now[slice(*token.now)]
    masked(was)


def test_all_that_is_said():
    transcript.holds("kind.txt", globals())
