"""normalize(): the fold, its reports, and what one failing rule may not do."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.document.edits import REMOVE, Edit, Raw
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick
from cacheproxy.core.rules.fold import MOST_EDITS, Failures, RuleReport, normalize, step
from cacheproxy.core.rules.rule import Rule

SECRET = "the secret prompt"


def request_of(value: object) -> Request:
    return Request("POST", "/v1/messages", body=json.dumps(value).encode())


def code(name: str, find) -> CodeRule:
    return CodeRule(name, "for a test", find)


def raising(error: BaseException):
    def find(request, previous):
        raise error

    return find


def raising_late(request, previous):
    yield Edit("/a", "changed", "why")
    raise ValueError(SECRET)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


BROKEN = [
    code("broken", raising(ValueError(SECRET))),
    code("broken", raising(KeyError(SECRET))),
    code("broken", raising(StopIteration(SECRET))),
    code("broken", raising(RecursionError(SECRET))),
    code("broken", raising(MemoryError(SECRET))),
    code("broken", raising(SystemExit(SECRET))),
    code("broken", raising(GeneratorExit(SECRET))),
    code("broken", raising(type("PathError", (ValueError,), {})(SECRET))),
    code("broken", raising_late),
    code("broken", lambda request, previous: 5),
    code("broken", lambda request, previous: SECRET),
    code("broken", lambda request, previous: [SECRET]),
    code("broken", lambda request, previous: [None]),
    code("broken", lambda request, previous: Edit("/a", 1, "not in a list")),
    code("broken", lambda request, previous: {"path": SECRET}),
    code("broken", lambda request, previous: b"bytes"),
    code("broken", lambda request, previous: map(Edit, itertools.count())),
    code("broken", lambda request, previous: (Edit("/a", str(n), "w") for n in itertools.count())),
    code("broken", lambda request, previous: itertools.repeat(Edit("/a", "x", "w"))),
    pytest.param(
        code("broken", lambda request, previous: [Edit("/a", nested(100_000), "w")]),
        marks=pytest.mark.slow,
    ),
    code("broken", lambda request, previous: [Edit("/a", 10**5000, "w")]),
    code("broken", lambda request, previous: [Edit("/a", float("nan"), "w")]),
    code("broken", lambda request, previous: [Edit("/a", {(): 2}, "w")]),
    code("broken", lambda request, previous: [Edit(5, "x", "w")]),
    code("broken", lambda request, previous: [Edit("/a", "x", "w", (SECRET, 1))]),
    code("broken", lambda request: []),
    code("broken", lambda request, previous: request.json["nope"]),
    code("broken", lambda request, previous: request.document.entry((SECRET,))),
    code("broken", lambda request, previous: [Edit("/nope", 1, "why")]),
    code("broken", lambda request, previous: [Edit(SECRET, "/a", "arguments swapped")]),
    code("broken", lambda request, previous: [Edit("/a", REMOVE, "w"), Edit("/nope", 1, "w")]),
    code("broken", lambda request, previous: [Edit("/a", 1, "w"), Edit("/a", 2, "w")]),
    code("broken", lambda request, previous: [Edit("/a", object(), "w")]),
    code("broken", lambda request, previous: [Edit("/a", "x", "w", (0, 99))]),
    code("broken", lambda request, previous: [Edit("/a", "x", "w", "ab")]),
    code("broken", lambda request, previous: [Edit("", {}, "w")]),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_failing_normalizer_is_left_out_and_named(broken):
    """Law 4: the others do their work, and the error names the culprit without body text."""
    request = request_of({"a": SECRET, "b": "1"})
    done = normalize(request, [Rule("first", "/b", "1", "2"), broken, Rule("last", "/b", "2", "3")])
    assert done.request.json == {"a": SECRET, "b": "3"}
    assert [report.rule for report in done.reports] == ["first", broken.name, "last"]
    assert [bool(report.error) for report in done.reports] == [False, True, False]
    assert done.reports[1].edits == ()
    assert SECRET not in done.reports[1].error
    assert len(done.reports[1].error.splitlines()) == 1
    alone = normalize(request, [broken])
    assert alone.request is request


def test_errors_of_edits_name_their_place():
    """Our own errors say which place was not there."""
    rule = code("x", lambda request, previous: [Edit("/system/7/text", "", "why")])
    done = normalize(request_of({"system": []}), [rule])
    assert done.reports == (RuleReport("x", error="PathError: nothing at /system/7"),)


def test_a_normalizer_adds_and_spells_what_is_json():
    rule = code(
        "adds",
        lambda *_: [
            Edit("/a", Raw('{"x":1.0}'), "w"),
            Edit("/b", [1], "w", adds=True),
        ],
    )
    done, reports = normalize(request_of({"a": 1}), [rule])
    assert done.body == b'{"a": {"x":1.0},"b":[1]}'
    assert [edit.adds for edit in reports[0].edits] == [False, True]


@pytest.mark.parametrize("text", ["{", "1 2", "", 7, "[" * 100_000])
def test_a_spelling_that_is_no_json_is_refused(text):
    """Also in a quick function: nobody gets a body that is none any more."""
    request = request_of({"a": 1})
    done, reports = normalize(request, [code("bad", lambda *_: [Edit("/a", Raw(text), "w")])])
    assert done is request
    assert reports[0].error
    quickly = code("bad", quick(lambda *_: [Edit("/a", Raw(text), "w")]))
    assert normalize(request, [quickly]) == (done, reports)


def test_the_users_interrupt_is_not_swallowed():
    """A rule's SystemExit is its own failure; Ctrl-C comes as a KeyboardInterrupt."""
    with pytest.raises(KeyboardInterrupt):
        normalize(request_of({"a": "x"}), [code("x", raising(KeyboardInterrupt()))])


@pytest.mark.slow
def test_as_many_edits_as_there_may_be():
    """One more leaves the rule out; a declarative rule has no such limit."""
    request = request_of({"a": ["x"] * (MOST_EDITS + 1)})

    def find(number):
        return lambda request, previous: [Edit(f"/a/{n}", "y", "w") for n in range(number)]

    most, more = (step(request, code("x", find(MOST_EDITS + extra))) for extra in (0, 1))
    assert most[0].json["a"].count("y") == MOST_EDITS
    assert more == (request, RuleReport("x", error="more than 10,000 edits"))
    everywhere = step(request, Rule("x", "/a/*", "x", "y"))[0]
    assert "x" not in everywhere.json["a"]


def test_an_edit_that_is_sound_is_reported_as_it_is():
    """The very object."""
    edit = Edit("/a", "y", "why", (0, 1))
    _, report = step(request_of({"a": "x"}), code("x", lambda request, previous: [edit]))
    assert report.edits[0] is edit


def test_a_rule_may_be_shown_json_of_its_own():
    """What it does to that reaches nobody; its edits are made in the request itself."""
    request = request_of({"a": ["x", "y"]})

    def find(shown, _):
        shown.json["a"].clear()
        return [Edit("/a/1", "z", "why")]

    changed, report = step(request, code("x", find), shown=request_of({"a": ["x", "y"]}))
    assert report.error is None
    assert changed.json == {"a": ["x", "z"]}
    assert request.json == {"a": ["x", "y"]}


def test_an_error_is_cut_to_a_line():
    """A place that is not there may have a name of any length."""
    rule = code("x", lambda request, previous: [Edit("/a/" + "y\n" * 50_000, "z", "why")])
    _, report = step(request_of({"a": {}}), rule)
    assert report.error.startswith("PathError: nothing at /a/y")
    assert len(report.error) < 1000
    assert report.error.isprintable()


@pytest.mark.parametrize(
    "body", [b"", b"SECRET", b"[]", b"{", b"\xff{}", b"\xef\xbb\xbf{}", b'{"a": 1} x']
)
def test_a_body_that_is_not_understood_goes_on_as_the_same_request(body):
    """No normalizer is even asked."""
    request = Request("POST", "/v1/messages", body=body)
    done = normalize(request, [code("x", raising(AssertionError()))])
    assert done.request is request
    assert done.reports == ()


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        (),
        [Edit("/a", "x", "why")],
        [Edit("/a", "x", "why", (0, 1))],
        [Edit("/a", "", "why", (1, 1))],
    ],
)
def test_nothing_to_say_gives_the_very_same_request(found):
    """Also where the edits would change nothing; and nothing is reported."""
    request = request_of({"a": "x"})
    done = normalize(request, [code("x", lambda request, previous: found)])
    assert done.request is request
    assert done.reports == ()


def test_each_sees_the_result_of_the_earlier_ones():
    """A normalizer works on the text the one before it left."""
    rules = [Rule(f"r{n}", "/a", f"\\A{n}\\Z", str(n + 1)) for n in range(5)]
    done = normalize(request_of({"a": "0"}), rules)
    assert done.request.json == {"a": "5"}
    assert [report.rule for report in done.reports] == [f"r{n}" for n in range(5)]
    assert normalize(request_of({"a": "0"}), rules[::-1]).request.json == {"a": "1"}


def test_previous_is_handed_to_every_normalizer():
    """The session's last request, or None."""
    before = request_of({"a": "before"})
    seen = []

    def find(request, previous):
        seen.append(previous)

    normalize(request_of({"a": "x"}), [code("x", find), code("y", find)], before)
    normalize(request_of({"a": "x"}), [code("x", find)])
    assert seen == [before, before, None]


def test_without_its_literals_a_body_is_not_even_parsed():
    """Literals are looked for in the bytes; a body without them is read by nobody."""
    request = request_of({"a": "cch=1"})
    rule = Rule("x", "/a", "1", "2", literals=("nope", "neither"))
    assert normalize(request, [rule]).request is request
    assert "document" not in request.__dict__
    assert "document" not in request.__dict__
    other = Rule("y", "/a", "1", "2", literals=("nope", "cch="))
    assert normalize(request, [rule, other]).request.json == {"a": "cch=2"}


def test_literals_are_looked_for_in_what_earlier_ones_left():
    """A rule may bring in the literal that a later one waits for."""
    first = Rule("x", "/a", "1", "two", literals=("1",))
    rules = [first, Rule("y", "/a", "two", "3", literals=("two",))]
    assert normalize(request_of({"a": "1"}), rules).request.json == {"a": "3"}


def test_the_request_but_for_its_body_stays():
    """Method, target and headers are nobody's to edit."""
    request = Request("POST", "/v1/messages?beta=true", ((b"X-A", b"1"),), b'{"a": "1"}')
    done = normalize(request, [Rule("x", "/a", "1", "2")]).request
    assert (done.method, done.target, done.headers) == ("POST", request.target, request.headers)
    assert done.body == b'{"a": "2"}'
    assert request.body == b'{"a": "1"}'


IDEMPOTENT = [
    Rule("nonce", "/system", r"cch=[0-9a-f]*", "cch=0"),
    Rule("group", "/system", r"f(?P<volatile>[^f]*)f", "-"),
    Rule("start", "/messages/*/content", r"\A.*?;", "x;"),
    Rule("pin", "/system", r"\Ac(?P<volatile>.*)\Z", pin=True),
]


@given(st.sampled_from(IDEMPOTENT), st.text(alphabet='cch=0f;"\\é😀 \n', max_size=30))
def test_declarative_rules_are_idempotent(rule, text):
    """A rule that matches its own replacement changes nothing the second time."""
    previous = request_of({"system": "c before", "messages": []})
    request = request_of({"system": text, "messages": [{"content": text}]})
    once = normalize(request, [rule], previous)
    assert all(report.error is None for report in once.reports)
    twice = normalize(once.request, [rule], previous)
    assert twice.request is once.request
    assert twice.reports == ()


def test_captured_bodies_pass_unchanged_where_no_rule_fires(captured):
    """Real requests come out as the very same objects."""
    rules = [
        Rule("never", ("system", "user"), "\0never\0", "x"),
        code("nothing", lambda request, previous: None),
    ]
    for requests in captured.values():
        for request in requests:
            assert normalize(request, rules, requests[0]).request is request


def test_each_name_has_counts_of_its_own():
    """In the order of their names, as plain values; nobody is listed without cause."""
    failures = Failures()
    assert failures.as_dict() == {}
    failures.of("b").failed += 1
    failures.of("a").timed_out += 1
    failures.of("a").dropped += 3
    failures.of("b").failed += 1
    failures.of("b").left_out = True
    assert json.dumps(failures.as_dict()) == json.dumps(
        {
            "a": {"failed": 0, "timed_out": 1, "dropped": 3, "left_out": False},
            "b": {"failed": 2, "timed_out": 0, "dropped": 0, "left_out": True},
        }
    )
