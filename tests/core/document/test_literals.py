"""Literals: which texts a body holds."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.compare import common_prefix, common_suffix
from cacheproxy.core.document.literals import Literals

bodies = st.lists(st.sampled_from([b"a", b"b", b"ab", b"ba"]), max_size=8).map(b"".join)
words = st.text(alphabet="ab", min_size=1, max_size=4)


@given(st.lists(bodies, min_size=1, max_size=4), st.lists(words, min_size=1), st.data())
@settings(max_examples=300)
def test_a_text_is_in_the_body_or_not_whatever_came_before(turns, asked, data):
    """Also where the shared bytes are fewer than they could be, and the text was moved."""
    before, literals = turns[0], Literals(turns[0])
    for body in turns:
        prefix = data.draw(st.integers(0, common_prefix(body, before)))
        most = min(len(body), len(before)) - prefix
        suffix = data.draw(st.integers(0, common_suffix(body, before, most)))
        literals = Literals(body, literals, prefix, suffix)
        for word in data.draw(st.lists(st.sampled_from(asked))):
            assert (word in literals) is (word.encode() in body)
            pattern = re.compile(word.encode() + b"?(a|bb)")
            assert literals.match(pattern, 6) is (pattern.search(body) is not None)
        if data.draw(st.booleans()):
            literals.settle()
        before = body


def test_what_is_known_to_be_absent_is_looked_for_only_in_what_is_new():
    """The whole body is not searched again: it is not even there any more."""

    class Searched(bytes):
        def find(self, word, start=0, end=None):
            ranges.append((start, end))
            return super().find(word, start, end)

        def __getitem__(self, part):
            ranges.append((part.start, part.stop))
            return super().__getitem__(part)

    ranges: list = []
    old = Literals(b"x" * 1000 + b"here" + b"x" * 1000)
    assert "gone" not in old
    assert "neither" not in old
    assert "here" in old
    body = Searched(b"x" * 1000 + b"NEWhere" + b"x" * 1000)
    new = Literals(body, old, 1000, 1004)
    assert "gone" not in new
    assert "gone" not in new
    assert "neither" not in new
    assert "here" in new
    assert ranges == [(994, 1009)]
    new.settle()
    assert "gone" not in new
    assert not new.match(re.compile(b"[gG]one"), 4)
