"""A replacement that its own pattern finds again is refused where an example shows it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.rules.normalizer import RuleError
from cacheproxy.core.rules.rule import Rule
from cacheproxy.core.rules.second_pass import is_settled


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("a", "aa"),
        ("(?P<volatile>a)", "aa"),
        ("foo", "foo bar"),
        (r"\A", "x"),
        ("x*", "y"),
        ("(a)", r"\1\1"),
        (r"build (?P<volatile>\d+)", "12 of 3"),
        (r"id=(?P<volatile>\w{4})", "abcd0"),
        (r"at \d{2}:\d{2}", "at 00:00, not at 00:00"),
        ("[0-9]", "10"),
    ],
)
def test_what_grows_is_refused(pattern, replacement):
    """``a`` -> ``aa``: a second pass would make four of two."""
    with pytest.raises(RuleError, match=r"rule 'x': bad replacement: .* change it again"):
        Rule("x", "system", pattern, replacement)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("a", ""),
        ("a", "a"),
        (r"\d+", "0"),
        (r"stamp=\w+", "stamp=0"),
        (r"id=(?P<volatile>\w+)", "0"),
        (r"(\w+)=\d+", r"\1=0"),
        (r"\[(?P<volatile>[^\]]*)\] ", "0 1"),
        (r"(?<=at )\d\d:\d\d", "00:00"),
        (r"[A-Z]\w*", "Name"),
    ],
)
def test_a_constant_is_taken(pattern, replacement):
    """It may look like what it replaces: it stays what it is."""
    assert Rule("x", "system", pattern, replacement)


@given(st.text("ab0-", min_size=1, max_size=4), st.text("ab0-", max_size=4))
def test_of_plain_words_what_holds_itself_is_refused(word, replacement):
    """And what is refused has an example that a second pass changes."""

    def apply(value: str) -> str:
        return re.sub(word, replacement, value)

    settled = is_settled(apply, word, [replacement])
    assert settled == all(apply(apply(one)) == apply(one) for one in (word, replacement))
    if word in replacement and word != replacement:
        assert not settled
