"""Comment lines in a stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.translate.stream import COMMENT, CommentFinder


def cut(*pieces):
    finder = CommentFinder()
    return [found for piece in pieces for found in finder.cut(piece)]


def test_a_comment_is_announced():
    """At the beginning of a line, after any line end, and nowhere else."""
    found = [COMMENT, b":a\n", COMMENT, b":b\r", COMMENT, b":c\r\n", COMMENT, b":d"]
    assert cut(b":a\n:b\r:c\r\n:d") == found
    assert cut(b"data: x:\n") == [b"data: x:\n"]
    assert cut(b"data", b":x\n", b"", b":") == [b"data", b":x\n", COMMENT, b":"]


@given(st.lists(st.text(":ab\r\n", max_size=6).map(str.encode), max_size=6))
def test_pieces_make_no_difference(pieces):
    """As many comments, and the same stream."""
    whole = b"".join(pieces)
    lines = whole.replace(b"\r", b"\n").split(b"\n")
    comments = sum(line.startswith(b":") for line in lines)
    for way in (pieces, [whole], [whole[at : at + 1] for at in range(len(whole))]):
        found = cut(*way)
        assert b"".join(found) == whole
        assert found.count(COMMENT) == comments
