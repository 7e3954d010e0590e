"""Rules are proposed only where they keep their promises."""

import json
import re
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.config import Config
from cacheproxy.core.diagnose.propose import propose
from cacheproxy.core.diagnose.prove import objection
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.diagnose.wording import rule_toml
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule
from cacheproxy.testing import assert_extends
from tests import golden, transcript
from tests.core.planting import anthropic, insert, numbered, plant, requests

from .test_volatile import set_system, shapes

FILE = Path(__file__).with_name("proposals.txt")
KINDS = ["uuid", "clock", "nonce", "counter"]


def proposals(bodies, rules=()):
    sent = requests(bodies)
    steps = list(pairwise(sent))
    return apart(propose(fields(steps, rules), steps, sent, {rule.name for rule in rules}))


def apart(found):
    """Those with a rule, and those without."""
    made = list(found)
    return [one for one in made if one.rule], [one for one in made if not one.rule]


def planted(bodies, kind, at=500, label="run id: "):
    def change(body, turn):
        set_system(body, lambda text: insert(text, at, f"{label}{numbered(kind, turn)}."))

    return plant(bodies, change)


@given(bodies_of=shapes, kind=st.sampled_from(KINDS), at=st.integers(0, 999))
@settings(max_examples=10)
def test_a_token_in_the_system_text_gets_a_rule_that_covers_it(bodies_of, kind, at):
    bodies = planted(bodies_of(), kind, at)
    (proposal,), refused = proposals(bodies)
    assert refused == []
    config = msgspec.convert(tomllib.loads(proposal.toml()), Config)
    (rule,) = config.rules()
    assert rule == proposal.rule
    steps = list(pairwise(requests(bodies)))
    (field,) = fields(steps, [rule])
    assert (field.rules, field.covered) == ((rule.name,), len(steps))
    for earlier, later in steps:
        assert_extends(earlier, later, [rule])


def user_quotes(body, turn):
    for message in body["messages"]:
        if message["role"] == "user" and message["content"][0]["type"] == "text":
            message["content"][0]["text"] += f" run id: {numbered('nonce', turn)}"


def tool_returns(body, turn):
    for message in body["messages"]:
        if message["content"][0]["type"] == "tool_result":
            message["content"][0]["content"] += f" took {numbered('counter', turn)} ms"


def token_stands_alone(body, turn):
    body["system"][0]["text"] = numbered("nonce", turn)


def branch_changes(body, turn):
    body["system"][0]["text"] += f"\nbranch: {'main' if turn % 2 else 'next'}"


def replaced(*texts, label="Folder: "):
    """A conversation in whose system text one line changes with each turn."""

    def change(body, turn):
        set_system(body, lambda text: f"be kind\n{label}{texts[turn % len(texts)]}\n\n{text}")

    return plant(anthropic(), change)


def a_version_and_a_nonce(body, turn):
    text = f"version=2.1.114; cch={numbered('nonce', turn)};"
    body["system"].insert(0, {"type": "text", "text": text})


def a_build_of_a_tool(body, turn):
    body["tools"][1]["description"] += f" Build id {numbered('nonce', turn)}."


def two_ids(body, turn):
    one, other = numbered("nonce", turn), numbered("nonce", turn, 7)
    set_system(body, lambda text: f"run id: {one};\n{text}\nrun id:  {other}!")


KEY = "sk-ant-api03-AbCdEfGh1234567890ijklmnop"
DATES = ("Today's date: ", "Current date is ", "Date: ", "Release date = ", "\u65e5\u4ed8: ")
GIT = ("\n M a.py", "\n M a.py\n?? b.py", "\n(clean)")
CASES = {
    "the user wrote it": plant(anthropic(), user_quotes),
    "a tool wrote it": plant(anthropic(), tool_returns),
    "a token that stands alone": plant(anthropic(), token_stands_alone),
    "words that change": plant(anthropic(), branch_changes),
    # what the model hears of a date is in the words of the line, and true
    **{f"a date: {label}": planted(anthropic(), "date", label=f"\n{label}") for label in DATES},
    # a constant in the place of what the model may need would be a lie
    "a folder": replaced("/home/me/one", "/home/me/two"),
    "its parent": replaced("/tmp/xyz/a", "/tmp/uvw/a", label="Working folder: "),
    "a time": replaced("9:05", "9:06", "9:07", "9:08", label="The time is "),
    "a month": replaced("October 2026", "November 2026", label="It is "),
    "a git status": replaced(*GIT, label="Git status:")[:2],
    # a stamp without a letter is no counter: in one pair of turns both may happen to have none
    **{
        f"{one} and {other}": replaced(one, other, label="stamp=")[:2]
        for one, other in (("01265", "35882"), ("1265", "1266"), ("9", "10"), ("99", "712"))
    },
    "a credential on its line": replaced("2026-11-21", "2026-11-22", label=f"{KEY} "),
    # a nonce keeps its length, and the version before it may change
    "a nonce": plant(anthropic(), a_version_and_a_nonce),
    "a tool's description": plant(anthropic(), a_build_of_a_tool),
    "two fields get two names": plant(anthropic(), two_ids),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_proposed(name):
    """A rule as the config file has it, which makes turns extend each other; or why none."""
    found, refused = proposals(CASES[name])
    rules = [one.rule for one in found]
    for one in found:
        assert msgspec.convert(tomllib.loads(one.toml()), Config).rules() == [one.rule]
    for earlier, later in pairwise(requests(CASES[name])) if rules else ():
        assert_extends(earlier, later, rules)
    texts = [one.toml() for one in found]
    text = "\n".join([*texts, *sorted({f"none: {one.why}" for one in refused})])
    golden.agrees(FILE, name, re.sub(r"(?m)^(.{150}).{100,}(.{50})$", r"\1 … \2", text))


def test_no_proposal_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


@pytest.mark.parametrize(
    ("label", "texts"),
    [
        ("Today is ", ("2026-11-22 (Sun).", "2026-11-23 (Mon).", "2026-11-24 (Tue).")),
        ("Today is ", ("Saturday (2026-11-21).", "Sunday (2026-11-22).", "Monday (2026-11-23).")),
        ("Date: ", ("Sun, 22 November 2026", "Mon, 23 November 2026", "Tue, 24 November 2026")),
        ("Date: ", ("2026-11-22, Sunday", "2026-11-23, Monday", "2026-11-24, Tuesday")),
        ("Date: ", ("2026-11-22 (week 47)", "2026-11-23 (week 48)", "2026-11-24 (week 48)")),
        ("It is ", ("Sun Nov 22, 2026", "Mon Nov 23, 2026", "Tue Nov 24, 2026")),
        ("It is ", ("22/11/2026 - Sun", "23/11/2026 - Mon", "24/11/2026 - Tue")),
        ("Now: ", ("2026-11-22 23:59:58Z", "2026-11-23 00:00:01Z", "2026-11-24 00:00:02Z")),
        ("Session in week ", ("47", "48", "49")),
    ],
)
def test_a_date_and_its_day_are_one_field_and_one_note(label, texts):
    """Over two midnights the first stays whole, and each new one is told whole."""
    bodies = replaced(*texts, label=label)[:3]
    (proposal,), refused = proposals(bodies[:2])
    assert (refused, proposal.rule.pin, proposal.rule.replacement) == ([], True, None)
    before = None
    for number, one in enumerate(requests(bodies)):
        sent = normalize(one, [proposal.rule], before).request
        said = json.dumps(sent.json, ensure_ascii=False)
        assert label + texts[0] in said
        for at, text in enumerate(texts[1:], 1):
            value = text.removesuffix(".")
            assert said.count(f"now {value}.") == (at <= number), said[-900:]
        if before is not None:
            assert_extends(bodies_as(before), bodies_as(sent), [])
        before = sent


def bodies_as(request):
    """The request, to be compared as it is."""
    return replace(request, memo=None)


RUN_ID = Rule("x", "system", r"run id: (?P<volatile>[0-9a-f]{8})", "0" * 8)


def objection_to(rule, bodies, others=()):
    """What speaks against it, tried on everything that was captured."""
    sent = requests(bodies)
    steps = list(pairwise(sent))
    (field,) = fields(steps)
    return objection(rule, field, steps, [*sent, *others])


@given(
    pattern=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    why=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
def test_toml_says_what_the_rule_says(pattern, why):
    rule = Rule("x", ("system", "user"), re.escape(pattern), pin=True, why=why, default=False)
    config = msgspec.convert(tomllib.loads(rule_toml(rule)), Config)
    assert config.rules() == [rule]


@pytest.mark.parametrize("filler", ["x", "ab ", '{"a":[1,2]},'])
def test_a_long_line_is_read_but_once(filler):
    """Much of anything before a date on its line: else this takes hours."""
    text = filler * (300_000 // len(filler))
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    bodies = [
        {"system": f"{text} date: {day}.", "messages": [*said[:count], *said[:1]]}
        for day, count in (("2026-11-21", 0), ("2026-11-22", 2))
    ]
    (proposal,), _ = proposals(bodies)
    assert "date: " in proposal.rule.pattern


def test_all_that_is_said():
    transcript.holds("propose.txt", globals())
