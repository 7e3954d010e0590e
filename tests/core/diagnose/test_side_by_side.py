"""Two texts side by side, as a page shows them."""

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.diagnose.texts import CUT, WIDEST, side_by_side
from cacheproxy.core.document.compare import common_prefix
from tests import transcript


def shown(was, now):
    return side_by_side(was, now, common_prefix(was, now))


def text_of(line):
    return "".join(text for text, _ in line.parts)


def changed(lines):
    return [text for line in lines for text, is_new in line.parts if is_new]


def test_a_long_line_is_cut_on_both_sides_of_the_change():
    """What the cut alone makes differ is no change, where both are as long."""
    filler = "word " * 100_000
    left, right = shown(f"{filler}20 {filler}", f"{filler}21 {filler}")
    assert (changed(left), changed(right)) == (["20"], ["21"])
    for (line,) in (left, right):
        text = text_of(line)
        assert text[0] == text[-1] == CUT
        assert len(text) <= WIDEST + 2


@given(st.text("ab1 \n", max_size=40), st.text("ab1 \n", max_size=40), st.text("ab \n"))
def test_what_is_shown_stands_there(one, other, head):
    """Whatever the texts are: nothing is lost within a line, and unmarked text is in both."""
    was, now = head + one, head + other
    for lines, text in zip(shown(was, now), (was, now), strict=True):
        assert len(lines) <= 6
        rows = text.split("\n")
        for line in lines:
            assert rows[line.n - 1].endswith(text_of(line).lstrip(CUT).rstrip(CUT))


def test_all_that_is_said():
    transcript.holds("side_by_side.txt", globals())
