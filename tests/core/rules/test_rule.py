"""Rules: what a table row does, and what it refuses to be."""

from __future__ import annotations

import json
import re

import pytest

from cacheproxy.core.document.edits import Edit, apply
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.checks import RuleError
from cacheproxy.core.rules.code_rule import CodeRule, is_quick, quick
from cacheproxy.core.rules.rule import Rule


def request_of(value: object) -> Request:
    return Request("POST", "/v1/messages", body=json.dumps(value).encode())


def after(rule: Rule, value: object, previous: object = None) -> object:
    request = request_of(value)
    before = None if previous is None else request_of(previous)
    return json.loads(apply(request.document, rule.edits(request, before)))


def edits(rule: Rule, value: object, previous: object = None) -> list[Edit]:
    before = None if previous is None else request_of(previous)
    return list(rule.edits(request_of(value), before))


def test_a_rule_replaces_its_matches_at_its_places_and_nowhere_else():
    """The same text elsewhere stays, whoever wrote it."""
    rule = Rule("nonce", "/system", r"cch=[0-9a-f]+", "cch=0", "a nonce")
    body = {"system": "cch=1f; cch=2e", "messages": [{"role": "user", "content": "cch=3d"}]}
    assert after(rule, body) == body | {"system": "cch=0; cch=0"}
    assert edits(rule, body) == [
        Edit("/system", "cch=0", "a nonce", (0, 6)),
        Edit("/system", "cch=0", "a nonce", (8, 14)),
    ]


def test_only_the_volatile_group_is_replaced():
    """What surrounds the group in the match stays."""
    rule = Rule("id", "/system", r"id=(?P<volatile>\w+);(?P<rest>\w+)", r"<\g<rest>>")
    assert after(rule, {"system": "id=abc;def id=x;y"}) == {"system": "id=<def>;def id=<y>;y"}


def test_volatile_group_that_took_no_part_is_left_alone():
    """An optional group outside the match edits nothing."""
    rule = Rule("id", "/system", r"id(?:=(?P<volatile>\w+))?;", "0")
    assert after(rule, {"system": "id; id=5; id;"}) == {"system": "id; id=0; id;"}
    pin = Rule("pin", "/system", rule.pattern, pin=True)
    assert after(pin, {"system": "id=7;"}, {"system": "id;"}) == {"system": "id=7;"}
    assert after(pin, {"system": "id; id=7;"}, {"system": "id=1; id=2;"}) == {"system": "id; id=2;"}


def test_backreferences_work_as_in_re_sub():
    """A replacement may quote the match's groups; one that took no part is empty."""
    rule = Rule("swap", "/system", r"<(a)(b)?>", r"\2\1\g<1>")
    assert after(rule, {"system": "<ab> <a>"}) == {"system": "baa aa"}


def test_a_match_of_the_replacement_is_no_edit():
    """Idempotent: nothing is said where the text is already what it should be."""
    rule = Rule("nonce", "/system", r"cch=[0-9a-f]+", "cch=0")
    assert edits(rule, {"system": "cch=0"}) == []


def test_overlapping_places_give_each_edit_once():
    """The places system and system-head name the same text; it is edited once."""
    rule = Rule("x", ("system", "system-head", "/system", "/*"), "a+", "b")
    assert after(rule, {"system": "aa a"}) == {"system": "b b"}
    assert len(edits(rule, {"system": "aa a"})) == 2


def test_a_list_of_places_is_as_good_as_a_tuple():
    """Configuration files give lists."""
    assert after(Rule("x", ["/a", "/b"], "x", "y"), {"a": "x", "b": "x"}) == {"a": "y", "b": "y"}


@pytest.mark.parametrize(
    "body",
    [
        {"system": 5},
        {"system": None},
        {"system": {"type": "text", "text": "x"}},
        {"system": [5, None, "x", ["x"], {"type": "text", "text": 5}, {"type": "text"}]},
        {"messages": "x"},
        {"messages": 5},
        {"messages": {"role": "user", "content": "x"}},
        {"messages": ["x", 5, None, ["x"]]},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": 5}, {"role": "user"}, {"role": 5}]},
        {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ["x"]}]}]},
        {"input": {"role": "user", "content": "x"}},
        {"instructions": ["x"]},
        {},
    ],
)
@pytest.mark.parametrize("pin", [False, True])
def test_wrong_shapes_give_no_edits_and_no_exception(body, pin):
    """Whatever stands where text should, a rule has nothing to say, also of a previous one."""
    rule = Rule("x", ("system", "system-head", "user"), ".+", "changed", pin=pin)
    assert edits(rule, body) == []
    assert edits(rule, body, {"system": "y", "messages": []}) == []
    good = {"system": "y", "messages": [{"role": "user", "content": "y"}]}
    if pin:
        assert edits(rule, good, body) == []


def test_a_body_that_is_no_json_gives_no_edits():
    """Also as the previous request."""
    broken = Request("POST", "/", body=b"broken")
    rule = Rule("x", "system", ".+", "y")
    pin = Rule("p", "system", ".+", pin=True)
    assert list(rule.edits(broken)) == []
    assert list(pin.edits(request_of({"system": "x"}), broken)) == []


def test_pin_puts_back_what_stood_there_before():
    """The first value seen stays: match by match, at the same place."""
    rule = Rule("date", "/system/*/text", r"Date: (?P<volatile>\S+)", pin=True)
    assert rule.needs_previous
    now = {"system": [{"text": "Date: 3 and Date: 4"}, {"text": "Date: 5"}]}
    then = {"system": [{"text": "Date: 1 and Date: 2"}, {"text": "Date: 1"}]}
    assert after(rule, now, then) == then
    assert edits(rule, then, then) == []


def test_pin_without_a_previous_match_leaves_the_value():
    """No previous request, other shapes, fewer matches: what is not known is not changed."""
    rule = Rule("date", "/system", r"Date: (?P<volatile>\S+)", pin=True)
    now = {"system": "Date: 3 and Date: 4"}
    assert edits(rule, now) == []
    assert edits(rule, now, {"system": "nothing"}) == []
    assert edits(rule, now, {"messages": []}) == []
    assert after(rule, now, {"system": "Date: 1"}) == {"system": "Date: 1 and Date: 4"}
    assert after(rule, {"system": "Date: 3"}, {"system": "Date: 1 and Date: 2"}) == {
        "system": "Date: 1"
    }


def test_pin_does_not_read_letters_out_of_a_string():
    """Where the previous request had a string instead of a list, there is no place to pin."""
    rule = Rule("x", "/messages/*", r"\w+", pin=True)
    assert edits(rule, {"messages": ["abc"]}, {"messages": "xyz"}) == []


def test_pin_whole_matches_without_a_volatile_group():
    """Without the group the whole match is put back; the replacement is not used."""
    rule = Rule("x", "/s", r"n=\d+", "never", pin=True)
    assert after(rule, {"s": "n=2"}, {"s": "n=1"}) == {"s": "n=1"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "a_b",
        "-a",
        "a-",
        "a--b",
        "a b",
        "a\n",
        "é",
        "a.b",
        None,
        5,
        b"a",
        ("a",),
        "a" * 101,
    ],
)
def test_bad_names_are_refused(name):
    """A name is lower-case words joined by hyphens, for rules in code too."""
    for make in (lambda: Rule(name, "/a", "b"), lambda: CodeRule(name, "why", lambda r, p: [])):
        with pytest.raises(RuleError) as raised:
            make()
        assert len(str(raised.value).splitlines()) == 1
        assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "changed",
    [
        {"where": "system-tail"},
        {"where": "$.system"},
        {"where": ""},
        {"where": ()},
        {"where": []},
        {"where": ("/a", "b")},
        {"where": None},
        {"where": 5},
        {"where": (None,)},
        {"where": {"/a": 1}},
        {"where": "/a[role]"},
        {"where": "/a\nb["},
        {"pattern": "("},
        {"pattern": "*"},
        {"pattern": "(?P<volatile>a)(?P<volatile>b)"},
        {"pattern": "(?\n"},
        {"pattern": "\n\n("},
        {"pattern": "a{99999999999999999999}"},
        {"pattern": "(" * 5000 + ")" * 5000},
        {"pattern": "\\"},
        {"pattern": None},
        {"pattern": 5},
        {"pattern": b"a"},
        {"pattern": ["a"]},
        {"replacement": r"\9"},
        {"replacement": r"\g<nope>"},
        {"replacement": r"\g<"},
        {"replacement": r"\q"},
        {"replacement": "\\"},
        {"replacement": "\n\\g<no\npe>"},
        {"replacement": None},
        {"replacement": 5},
        {"replacement": b"a"},
        {"replacement": lambda found: "x"},
        {"literals": "cch="},
        {"literals": ("",)},
        {"literals": ("é",)},
        {"literals": (b"cch=",)},
        {"literals": (5,)},
        {"literals": None},
        {"replacement": "x" * 65_537},
        {"why": None},
        {"why": 5},
        {"default": "yes"},
        {"default": 1},
        {"pin": None},
        {"replacement": "aa"},
        {"replacement": r"\1\1"},
        {"client": "claude"},
        {"client": Client},
    ],
)
def test_rules_that_cannot_work_are_refused_in_one_line(changed):
    """A mistake in a table is a RuleError that names the rule, before any request comes."""
    with pytest.raises(RuleError, match="rule 'x'") as raised:
        Rule(**({"name": "x", "where": "/a", "pattern": "(a)", "replacement": ""} | changed))
    assert len(str(raised.value).splitlines()) == 1


def test_good_rules_are_not_refused():
    """Names, places, compiled flags and references of every allowed kind."""
    Rule("a", "/a", "(?i)<(a)(?P<b>b)?>", r"\1\g<b>\n")
    Rule("a", "/a", "(?i)(a)", r"\g<0>")
    Rule("a1-b2-3", ("system", "/a~1b/*[c=d]"), "", "", literals=("a", "b"))
    Rule("x", "user", re.escape("a+b"), "", literals=[])


def test_code_rules_give_what_their_function_finds():
    """A rule in code gets both requests, and is on by default."""
    seen = []

    def find(request, previous):
        seen.append((request, previous))
        return [Edit("/a", 1, "why")]

    rule = CodeRule("x", "why", find)
    assert (rule.default, rule.literals, rule.needs_previous) == (True, (), False)
    request, before = request_of({"a": 0}), request_of({"a": 5})
    assert list(rule.edits(request, before)) == [Edit("/a", 1, "why")]
    assert list(rule.edits(request)) == [Edit("/a", 1, "why")]
    assert seen == [(request, before), (request, None)]


@pytest.mark.parametrize("literals", ["text", ("",), (5,), None])
def test_code_rules_check_their_literals_too(literals):
    """Plain ASCII texts, as for rules of a table."""
    with pytest.raises(RuleError):
        CodeRule("x", "why", lambda request, previous: [], literals=literals)


@pytest.mark.parametrize(
    "changed",
    [
        {"why": None},
        {"why": b"bytes"},
        {"default": None},
        {"needs_previous": "no"},
        {"find": None},
        {"find": "text"},
    ],
)
def test_code_rules_check_their_other_fields_too(changed):
    """Wherever a rule is listed or sorted out, its fields are what they say."""
    fields = {"name": "x", "why": "why", "find": lambda request, previous: []}
    with pytest.raises(RuleError, match="rule 'x'") as raised:
        CodeRule(**(fields | changed))
    assert len(str(raised.value).splitlines()) == 1


def test_code_is_quick_only_where_its_author_says_so():
    """Else it is called in a thread, with a deadline."""
    assert not is_quick(CodeRule("x", "why", lambda request, previous: []))
    assert is_quick(CodeRule("x", "why", quick(lambda request, previous: [])))
