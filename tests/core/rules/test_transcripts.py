"""What a rule does, refuses and reports; the fold of a request through several: transcripts."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document import search
from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.document.pointer import match_paths
from cacheproxy.core.rules.checks import RuleError, examples, is_settled
from cacheproxy.core.rules.code_rule import CodeRule
from cacheproxy.core.rules.fold import MOST_EDITS, RuleReport, normalize, step
from cacheproxy.core.rules.places import NAMED
from cacheproxy.core.rules.rule import Rule
from cacheproxy.testing import request
from tests import transcript

SECRET = "the secret prompt"


def edits(rule, body, previous=None):
    return list(rule.edits(request(body), None if previous is None else request(previous)))


def after(rule, body, previous=None):
    """The body as the rule leaves it."""
    return json.loads(apply(request(body).document, edits(rule, body, previous)))


def wrong(make):
    """What a rule is refused for, on one line: the part that is ours, not Python's."""
    with pytest.raises(RuleError) as raised:
        make()
    said = str(raised.value)
    assert len(said.splitlines()) == 1
    assert len(said) < 300
    return ": ".join(said.split(": ")[:2])


def row(changed):
    return wrong(
        lambda: Rule(
            **({"name": "x", "where": "/a", "pattern": "(a)", "replacement": ""} | changed)
        )
    )


def own(changed):
    fields = {"name": "x", "why": "why", "find": lambda asked, previous: []}
    return wrong(lambda: CodeRule(**(fields | changed)))


def code(name, find):
    return CodeRule(name, "for a test", find)


def found(find):
    """The error of a rule in code: the others do their work, and it names no text (law 4)."""
    asked, rule = request({"a": SECRET, "b": "1"}), code("broken", find)
    done = normalize(asked, [Rule("first", "/b", "1", "2"), rule, Rule("last", "/b", "2", "3")])
    assert done.request.json == {"a": SECRET, "b": "3"}
    assert [report.rule for report in done.reports] == ["first", "broken", "last"]
    first, broken, last = done.reports
    assert (first.error, last.error, broken.edits) == (None, None, ())
    assert len(broken.error.splitlines()) == 1
    assert SECRET not in broken.error
    assert normalize(asked, [rule]).request is asked
    return broken.error


def raising(error):
    """The same, of one that raises ``error``."""

    def find(asked, previous):
        raise error

    return found(find)


def texts(body, places):
    named = (text for place in NAMED[places] for _, text in match_paths(body, place))
    return sorted({text for text in named if isinstance(text, str)})


@pytest.mark.parametrize("surface", ["rule", "fold", "places", "checks"])
def test_all_that_is_said(surface):
    transcript.holds(f"{surface}.txt", globals())


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.slow
def test_a_value_of_any_depth_is_the_rules_own_failure():
    assert found(lambda asked, previous: [Edit("/a", nested(100_000), "w")])


@pytest.mark.slow
def test_as_many_edits_as_there_may_be(monkeypatch):
    """One more leaves the rule out; a declarative rule has no such limit, but for its time."""
    monkeypatch.setattr(search, "SECONDS", 10.0)
    asked = request({"a": ["x"] * (MOST_EDITS + 1)})

    def making(number):
        return code("x", lambda *_: [Edit(f"/a/{n}", "y", "w") for n in range(number)])

    most, more = (step(asked, making(MOST_EDITS + extra)) for extra in (0, 1))
    assert most[0].json["a"].count("y") == MOST_EDITS
    assert more == (asked, RuleReport("x", error="more than 10,000 edits"))
    assert "x" not in step(asked, Rule("x", "/a/*", "x", "y"))[0].json["a"]


def test_the_users_interrupt_is_not_swallowed():
    """A rule's SystemExit is its own failure; Ctrl-C comes as a KeyboardInterrupt."""
    with pytest.raises(KeyboardInterrupt):
        raising(KeyboardInterrupt())


SHAPES = [
    *({"system": value} for value in (5, None, {"type": "text", "text": "x"})),
    {"system": [5, None, "x", ["x"], {"type": "text", "text": 5}, {"type": "text"}]},
    *({"messages": value} for value in ("x", 5, {"role": "user", "content": "x"})),
    {"messages": ["x", 5, None, ["x"], {"role": "user"}, {"role": 5}]},
    {"messages": {"0": {"role": 5, "content": "x"}}},
    *({"messages": [{"role": "user", "content": value}]} for value in (None, 5, {"text": "x"})),
    {"messages": [{"role": "user", "content": [{"type": "text", "text": ["x"]}]}]},
    {"input": {"role": "user", "content": "x"}, "instructions": ["x"]},
    {"input": 7, "instructions": []},
    {},
]


@pytest.mark.parametrize("body", SHAPES, ids=json.dumps)
def test_wrong_shapes_give_no_edits_and_no_exception(body):
    """Whatever stands where text should, a rule has nothing to say, also of a previous one."""
    good = {"system": "y", "messages": [{"role": "user", "content": "y"}]}
    for pin in (False, True):
        rule = Rule("x", tuple(NAMED), ".+", None if pin else "changed", pin=pin)
        assert edits(rule, body) == edits(rule, body, {"system": "y", "messages": []}) == []
        assert not pin or edits(rule, good, body) == []
    assert not any(texts(body, name) for name in NAMED)


class Path(str):
    """A path of somebody's own, which quotes a prompt where it fails."""

    __slots__ = ()

    def startswith(self, *_):
        raise ValueError(SECRET)

    split = partition = __bool__ = startswith


IDEMPOTENT = [
    Rule("nonce", "/system", r"cch=[0-9a-f]*", "cch=0"),
    Rule("group", "/system", r"f(?P<volatile>[^f]*)f", "-"),
    Rule("start", "/messages/*/content", r"\A.*?;", "x;"),
    Rule("pin", "/system", r"\Ac(?P<volatile>.*)\Z", pin=True),
]


@given(st.sampled_from(IDEMPOTENT), st.text(alphabet='cch=0f;"\\é😀 \n', max_size=30))
def test_declarative_rules_are_idempotent(rule, text):
    """A rule that matches its own replacement changes nothing the second time."""
    previous = request({"system": "c before", "messages": []})
    once = normalize(request({"system": text, "messages": [{"content": text}]}), [rule], previous)
    assert all(report.error is None for report in once.reports)
    assert normalize(once.request, [rule], previous) == (once.request, ())


def test_captured_bodies_pass_unchanged_where_no_rule_fires(captured):
    """Real requests come out as the very same objects."""
    rules = [Rule("never", ("system", "user"), "\0never\0", "x"), code("nothing", lambda *_: None)]
    for requests in captured.values():
        for asked in requests:
            assert normalize(asked, rules, requests[0]).request is asked


@given(st.from_regex(r"[a-c|()\[\]^*+?.\\dw{}1,2<=!:P$-]{0,20}", fullmatch=True))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_pattern_has_examples_or_none(pattern):
    """Whatever Python reads as one."""
    with contextlib.suppress(re.error, RecursionError, OverflowError):
        re.compile(pattern)
        assert all(isinstance(text, str) for text in examples(pattern))


@given(st.text("ab0-", min_size=1, max_size=4), st.text("ab0-", max_size=4))
def test_of_plain_words_what_holds_itself_is_refused(word, replacement):
    """And what is refused has an example that a second pass changes."""

    def apply(value: str) -> str:
        return re.sub(word, replacement, value)

    settled = is_settled(apply, word, [replacement])
    assert settled == all(apply(apply(one)) == apply(one) for one in (word, replacement))
    if word in replacement and word != replacement:
        assert not settled
