"""A replacement that its own pattern finds again is refused where an example shows it."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.rules.normalizer import RuleError
from cacheproxy.core.rules.rule import Rule
from cacheproxy.core.rules.second_pass import examples, is_settled


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
        # what only an alternative, a set or a repetition shows
        (r"id: (?:none|\d+)", "id: none, id: 1"),
        (r"stamp=[^;]+;", "stamp=0; stamp=1;"),
        (r"(?P<volatile>[\w.-]+)@here", "a@here, b"),
        (r"run id: (?P<volatile>[^\W_]+)", r"0\g<volatile>"),
        (r"run(?P<volatile>(?: \d)*)!", " 1 2! run"),
        (r"(?<=at )(?P<volatile>\d\d)", "00 at 0"),
        (r"(?P<q>['\"])(?P<volatile>\w+)(?P=q)", "a'b'"),
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


@pytest.mark.parametrize(
    "pattern",
    [
        r"\n2\. Date: (?P<volatile>\d{1,2}/\d{1,2}/\d{4})",
        r"(a|bb|ccc)x?",
        r"[^\"]+[\w-]",
        r"(?i)foo(?!bar)",
        r"\A(?:x{3,5})+?",
        r"(\w+)=\1",
        r"(<)?id(?(1)>|;)",
        r"(?m:^)date: (?P<volatile>.+)$",
    ],
)
def test_examples_are_matched_whole(pattern):
    """As few repetitions as it takes, and more; each alternative."""
    found = list(examples(pattern))
    assert all(re.search(pattern, text) for text in found)
    assert len(found) == len(set(found))


@given(st.from_regex(r"[a-c|()\[\]^*+?.\\dw{}1,2<=!:P$-]{0,20}", fullmatch=True))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_pattern_has_examples_or_none(pattern):
    """Whatever Python reads as one."""
    with contextlib.suppress(re.error, RecursionError, OverflowError):
        re.compile(pattern)
        assert all(isinstance(text, str) for text in examples(pattern))


NOTE = r"Today's date is now \g<volatile>."


def test_repetitions_of_repetitions_are_cut_short():
    """Else the one example would fill the memory."""
    pattern = "a"
    for _ in range(9):
        pattern = f"(?:{pattern}){{50}}"
    assert max(map(len, examples(pattern))) <= 1001


@pytest.mark.parametrize("where", ["user", "/messages/*/content", ("system", "/input/*/content")])
def test_a_note_that_the_rule_itself_would_find_is_refused(where):
    """Where notes stand; a rule for other places never sees one."""
    pattern = r"(?P<volatile>\d{4}-\d\d-\d\d)"
    with pytest.raises(RuleError, match=r"the rule would find the note"):
        Rule("x", where, pattern, pin=True, note=NOTE)
    assert Rule("x", "system", pattern, pin=True, note=NOTE)
    assert Rule("x", where, rf"date: {pattern}", pin=True, note=NOTE)


@given(st.text("ab0-", min_size=1, max_size=4), st.text("ab0-", max_size=4))
def test_of_plain_words_what_holds_itself_is_refused(word, replacement):
    """And what is refused has an example that a second pass changes."""

    def apply(value: str) -> str:
        return re.sub(word, replacement, value)

    settled = is_settled(apply, word, [replacement])
    assert settled == all(apply(apply(one)) == apply(one) for one in (word, replacement))
    if word in replacement and word != replacement:
        assert not settled
