"""Where two texts differ."""

from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.diff.text import hunks
from tests import transcript

words = st.sampled_from(
    ["one", "two", "3", "12:30", "\n", " ", "- ", "abc123", "2026-01-02", "é", ""]
)
texts = st.lists(words, max_size=12).map("".join)


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


def test_all_that_is_said():
    transcript.holds("text.txt", globals())
