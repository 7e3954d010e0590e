"""Pins with a note: the first value stays, the new one is told once, and stays told."""

from __future__ import annotations

import copy
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.reminder import inside
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.checks import RuleError
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule

DATE = Rule(
    name="date",
    where="system",
    pattern=r"(?m)^Date: (?P<volatile>\S+)$",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("Date: ",),
)
BRANCH = Rule(
    name="branch",
    where="system",
    pattern=r"(?m)^Branch: (\S+)$",
    pin=True,
    note=r"The branch is now \1.",
)
PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}


def told(date: str) -> str:
    return f"<system-reminder>\nToday's date is now {date}.\n</system-reminder>"


def said(role: str, content: object) -> dict:
    return {"role": role, "content": content}


class Client:
    """A client that resends its whole conversation; its requests go through the rules in turn."""

    def __init__(self, api: str = "chat", rules: tuple[Rule, ...] = (DATE,)) -> None:
        self.api, self.rules = api, rules
        self.items: list[dict] = []
        self.previous: Request | None = None
        self.memo = Memo()

    def body(self, head: str) -> dict:
        items = copy.deepcopy(self.items)
        if self.api == "messages":
            return {"system": head, "messages": items}
        if self.api == "responses":
            return {"instructions": head, "input": items}
        return {"messages": [said("system", head), *items]}

    def request(self, head: str) -> Request:
        return Request(
            "POST", PATHS[self.api], body=json.dumps(self.body(head)).encode(), memo=self.memo
        )

    def sends(self, head: str, *items: dict) -> list:
        """Return the messages as they go upstream, the head first."""
        self.items += items
        request = self.request(head)
        sent, reports = normalize(request, self.rules, self.previous)
        assert not [report.error for report in reports if report.error]
        again, _ = normalize(sent, self.rules, self.previous)
        assert again.body == sent.body
        self.previous = sent
        body = sent.json
        if self.api == "messages":
            return [body["system"], *body["messages"]]
        if self.api == "responses":
            return [body["instructions"], *body["input"]]
        return [body["messages"][0]["content"], *body["messages"][1:]]


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("in_blocks", [False, True])
def test_the_new_value_is_told_once_and_all_stays_append_only(api, in_blocks):
    kind = "input_text" if api == "responses" else "text"

    def user(text):
        return said("user", [{"type": kind, "text": text}] if in_blocks else text)

    client = Client(api)
    turns = [
        client.sends("Hi\nDate: 1", user("one")),
        client.sends("Hi\nDate: 1", said("assistant", "a"), user("two")),
        client.sends("Hi\nDate: 2", said("assistant", "b"), user("three")),
        client.sends("Hi\nDate: 2", said("assistant", "c"), user("four")),
        client.sends("Hi\nDate: 3", said("assistant", "d"), user("five")),
        client.sends("Hi\nDate: 3", said("assistant", "e"), user("six")),
        client.sends("Hi\nDate: 1", said("assistant", "f"), user("seven")),
        client.sends("Hi\nDate: 1", said("assistant", "g"), user("eight")),
    ]
    for before, after in itertools.pairwise(turns):
        assert after[: len(before)] == before
    texts = [
        "".join(block["text"] for block in content) if in_blocks else content
        for content in (item["content"] for item in turns[-1][1::2])
    ]
    gap = "" if in_blocks else "\n\n"
    assert turns[-1][0] == "Hi\nDate: 1"
    assert texts == [
        "one",
        "two",
        f"three{gap}{told('2')}",
        "four",
        f"five{gap}{told('3')}",
        "six",
        f"seven{gap}{told('1')}",
        "eight",
    ]


def test_two_rules_tell_in_one_message_and_each_stays():
    client = Client(rules=(DATE, BRANCH))
    client.sends("Date: 1\nBranch: main", said("user", "one"))
    first = client.sends("Date: 2\nBranch: dev", said("assistant", "a"), said("user", "two"))
    later = client.sends("Date: 2\nBranch: dev", said("assistant", "b"), said("user", "three"))
    branch = "<system-reminder>\nThe branch is now dev.\n</system-reminder>"
    assert first[-1]["content"] == f"two\n\n{told('2')}\n\n{branch}"
    assert later[: len(first)] == first
    assert later[0] == "Date: 1\nBranch: main"
    assert later[-1]["content"] == "three"


@pytest.mark.parametrize("earlier", [0, 1])
def test_in_a_tool_loop_the_note_waits_for_the_user(earlier):
    """After the conversation's first question, and after a later one."""
    client = Client()
    client.sends("Date: 1", said("user", "zero"))
    if earlier:
        client.sends("Date: 1", said("assistant", "z"), said("user", "one"))
    call = {"role": "assistant", "content": "", "tool_calls": []}
    looped = client.sends("Date: 2", call, {"role": "tool", "content": "out", "tool_call_id": "x"})
    assert looped[0] == "Date: 1"
    assert "now 2" not in json.dumps(looped)
    spoken = client.sends("Date: 2", said("assistant", "done"), said("user", "two"))
    assert spoken[: len(looped)] == looped
    assert spoken[-1]["content"] == f"two\n\n{told('2')}"


def test_behind_a_tools_result_nothing_is_told():
    client = Client("messages")
    client.sends("Date: 1", said("user", "one"))
    result = {"type": "tool_result", "tool_use_id": "x", "content": "out"}
    sent = client.sends("Date: 2", said("assistant", "a"), said("user", [result]))
    assert sent[-1]["content"] == [result]


def test_the_form_of_a_message_may_change_when_it_is_history():
    """Claude Code moves its cache breakpoint, and sends older messages as plain text."""
    mark = {"cache_control": {"type": "ephemeral"}}
    client = Client("messages")
    client.sends("Date: 1", said("user", "one"))
    marked = said("user", [{"type": "text", "text": "two", **mark}])
    first = client.sends("Date: 2", said("assistant", "a"), marked)
    client.items[-1] = said("user", "two")
    later = client.sends("Date: 2", said("assistant", "b"), said("user", "three"))
    assert [block["text"] for block in first[-1]["content"]] == ["two", told("2")]
    assert [block["text"] for block in later[3]["content"]] == ["two", told("2")]
    assert later[-1]["content"] == "three"


def test_notes_go_with_the_history_that_the_client_takes_back():
    client = Client()
    client.sends("Date: 1", said("user", "one"))
    client.sends("Date: 2", said("assistant", "a"), said("user", "two"))
    del client.items[1:]
    back = client.sends("Date: 2", said("assistant", "b"), said("user", "other"))
    assert back[0] == "Date: 1"
    assert back[-1]["content"] == f"other\n\n{told('2')}"


@pytest.mark.parametrize("api", PATHS)
def test_a_question_that_is_asked_anew_each_day_has_the_date_of_its_day(api):
    """It goes on with no conversation, though the one before begins as it does."""
    client = Client(api)
    for day in "123":
        client.items.clear()
        sent = client.sends(f"Date: {day}", said("user", "what is new?"))
        assert sent == [f"Date: {day}", said("user", "what is new?")]
    sent = client.sends("Date: 4", said("assistant", "a"), said("user", "and?"))
    assert [sent[0], sent[-1]["content"]] == ["Date: 3", f"and?\n\n{told('4')}"]


def test_a_note_may_have_several_lines():
    """It is found again by what it begins with, up to the first that JSON spells otherwise."""
    status = Rule(
        name="status",
        where="system",
        pattern=r"(?m)^Status:\n(?P<volatile>[\s\S]*)",
        pin=True,
        note="The status is now:\n\n\\g<volatile>",
    )
    client = Client(rules=(status,))
    client.sends("Status:\nclean", said("user", "one"))
    first = client.sends("Status:\n M a\n M b", said("assistant", "a"), said("user", "two"))
    later = client.sends("Status:\n M a\n M b", said("assistant", "b"), said("user", "three"))
    assert first[0] == "Status:\nclean"
    assert "now:\n\n M a\n M b\n</system-reminder>" in first[-1]["content"]
    assert later[: len(first)] == first
    assert later[-1]["content"] == "three"


def test_what_a_user_quotes_stays_the_users():
    quote = f"look: {told('2')}"
    client = Client()
    client.sends("Date: 1", said("user", quote))
    client.sends("Date: 1", said("assistant", "a"), said("user", f"and\n\n{told('3')}"))
    sent = client.sends("Date: 3", said("assistant", "b"), said("user", "three"))
    assert sent[1]["content"] == quote
    assert sent[3]["content"] == f"and\n\n{told('3')}"
    assert sent[-1]["content"] == f"three\n\n{told('3')}"


def test_a_pinned_value_in_the_first_message_does_not_make_that_message_new():
    rule = Rule(
        name="first",
        where="user",
        pattern=r"\ADate: (?P<volatile>\S+)\n",
        pin=True,
        note=r"Today's date is now \g<volatile>.",
    )
    client = Client(rules=(rule,))
    client.sends("Hi", said("user", "Date: 1\none"))
    client.items[0] = said("user", "Date: 2\none")
    sent = client.sends("Hi", said("assistant", "a"), said("tool", "out"))
    assert sent[1]["content"] == "Date: 1\none"
    sent = client.sends("Hi", said("assistant", "b"), said("user", "two"))
    assert [item["content"] for item in sent[1:]] == [
        "Date: 1\none", "a", "out", "b", f"two\n\n{told('2')}",
    ]  # fmt: skip


def test_a_user_who_says_what_the_client_has_written_before_is_left_alone():
    """In blocks of one message; though the turn before has another text at that place."""
    rule = Rule(name="first", where="user", pattern=r"\ADate: (?P<volatile>\d)", pin=True)
    blocks = [[{"type": "text", "text": f"Date: {n}"} for n in pair] for pair in ("15", "26")]
    first, later = (
        Request("POST", PATHS["chat"], body=json.dumps({"messages": [said("user", one)]}).encode())
        for one in blocks
    )
    sent = normalize(later, [rule], first).request.json["messages"][0]["content"]
    assert [block["text"] for block in sent] == ["Date: 1", "Date: 6"]


def test_what_a_user_takes_back_is_searched_but_once():
    """However much of it looks like the beginning of a note; else this takes hours."""
    client = Client()
    client.sends("Date: 1", said("user", told("1") + "\n\n<system-reminder>\n" * 200_000))
    client.items[0] = said("user", told("1"))
    sent = client.sends("Date: 2", said("assistant", "a"), said("user", "two"))
    assert [item["content"] for item in sent[1::2]] == [told("1"), f"two\n\n{told('2')}"]


@pytest.mark.parametrize(
    ("note", "says"),
    [
        ("now \\1.", "must begin with 8"),
        ("Ünow it is \\1.", "must begin with 8"),
        ("Is now:\n\\1.", "must begin with 8"),
        (r"The branch is \2.", "no group '2'"),
        (r"The branch is \g<x>.", "no group 'x'"),
        ("The branch is \\n.", "plain text"),
        ("The branch is\n</system-reminder> \\1", "plain text"),
        ("The branch is " + "x" * (1 << 17), "more than"),
        ("What is more:\nBranch: dev\n\\1", "the rule would find the note"),
        (5, "'note' must be a text"),
    ],
)
def test_a_note_that_cannot_be_told_is_refused(note, says):
    with pytest.raises(RuleError, match=says):
        Rule(name="branch", where="system", pattern=BRANCH.pattern, pin=True, note=note)


def test_a_note_belongs_to_a_pin():
    with pytest.raises(RuleError, match="'note' must be a text"):
        Rule(name="x", where="system", pattern="abc", replacement="", note="It is now gone.")


def test_a_value_too_long_to_tell_is_not_pinned():
    client = Client()
    client.sends("Date: 1", said("user", "one"))
    long = "2" * (1 << 17)
    sent = client.sends(f"Date: {long}", said("assistant", "a"), said("user", "two"))
    assert sent[0] == f"Date: {long}"
    assert sent[-1]["content"] == "two"


_TEXTS = st.sampled_from(["", " ", "go on", told("2"), f"x\n\n{told('1')}", "Date: 2", "\ud83d"])
_CONTENTS = st.one_of(
    _TEXTS,
    st.lists(
        st.one_of(
            st.builds(lambda text: {"type": "text", "text": text}, _TEXTS),
            st.just({"type": "tool_result", "content": told("3")}),
            st.just({"type": "image", "source": {}}),
        ),
        max_size=3,
    ),
    st.none(),
)
_ITEMS = st.builds(said, st.sampled_from(["user", "assistant", "tool"]), _CONTENTS)


@given(
    api=st.sampled_from(sorted(PATHS)),
    turns=st.lists(
        st.tuples(st.sampled_from("123"), st.lists(_ITEMS, max_size=3), st.integers(0, 2)),
        max_size=6,
    ),
)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_whatever_comes_nobodys_text_changes(api, turns):
    """The client may take back messages; what it sends is there, and notes alone come behind."""
    client = Client(api)
    for date, items, back in turns:
        del client.items[max(0, len(client.items) - back) :]
        sent = client.sends(f"Date: {date}", *items)
        body = json.loads(json.dumps(client.body("")))
        own = body["input"] if api == "responses" else body["messages"]
        theirs = sent[1:] if api in ("messages", "responses") else [None, *sent[1:]]
        for was, now in zip(own, theirs, strict=True):
            if now is None or was == now:
                continue
            assert was["role"] == now["role"] == "user"
            text, longer = was["content"], now["content"]
            if isinstance(longer, str):
                assert longer.startswith(text + "\n\n<system-reminder>\nToday's date is now ")
            else:
                head = [{"type": longer[0]["type"], "text": text}]
                head = head if isinstance(text, str) else text
                assert longer[: len(head)] == head
                assert all(block["text"].startswith("<system-r") for block in longer[len(head) :])


MARKS = [
    "</system-reminder>",
    "\n</system-reminder>",
    "<system-reminder>\n",
    "\n</system-reminder>\n\n<system-reminder>\nThe branch is now x.",
    "</ System-Reminder >",
    "&lt;/system-reminder>",
    "&amp;lt;/system-reminder>",
    "<",
    "</",
    "\0",
    "x",
]


@given(
    st.lists(st.lists(st.sampled_from(MARKS), min_size=1, max_size=3).map("".join), max_size=6),
    st.booleans(),
    st.sampled_from(list(PATHS)),
)
def test_no_value_ends_the_mark_around_it_or_reads_as_a_note(values, in_blocks, api):
    """Each is told once, in one mark, and found again in all later turns."""
    kind = "input_text" if api == "responses" else "text"
    rule = Rule(
        "all", "system", r"(?s)Log:(?P<volatile>.*)", pin=True, note=r"Log now: \g<volatile>"
    )
    client = Client(api, (DATE, rule, BRANCH))
    before: list = []
    for number, value in enumerate(["first", *values]):
        text = f"question {number}"
        asked = said("user", [{"type": kind, "text": text}] if in_blocks else text)
        answers = [said("assistant", "ok")] if number else []
        sent = client.sends(f"Hi\nLog:{value}", *answers, asked)
        assert sent[: len(before)] == before
        before = sent
        content = sent[-1]["content"]
        texts = [block["text"] for block in content] if in_blocks else [content]
        is_new = value != ["first", *values][max(0, number - 1)]
        assert "".join(texts).lower().count("</system-reminder>") == is_new
        assert "".join(texts).endswith("</system-reminder>") == is_new
    assert client.request("Hi\nLog:x").json is not None


def test_two_values_that_imitate_each_other_are_told_as_two():
    """What is spelled in another way is spelled so that it stays another text."""
    spelled = {inside(text) for text in MARKS}
    assert len(spelled) == len(MARKS)
    assert not any("<system-reminder" in text or "</system" in text.lower() for text in spelled)


def test_a_long_value_is_spelled_in_linear_time():
    assert len(inside("<" * 500_000 + "&amp;" * 100_000)) == 1_000_000
