"""What an inspection finds in planted conversations."""

import json
from dataclasses import replace

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.session import DOCTOR, Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.diagnose.conversations import lanes_of
from cacheproxy.core.diagnose.inspection import inspect
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.packages import configured
from tests.core.planting import anthropic, captured, chat, numbered, plant, prose, tool
from tests.record.recorded import but, recorded

from .test_volatile import set_system


def with_uuid(body, turn):
    set_system(body, lambda text: f"id: {numbered('uuid', turn)}\n{text}")


IDS = Rule("ids", "system", r"(?m)^id: (?P<volatile>\S+)", "0")


def test_a_clean_conversation():
    result = inspect(captured(chat(5)))
    assert (result.requests, result.prompts, result.steps, result.seconds) == (5, 5, 4, 4.0)
    assert [(view.client, view.id, view.turns) for view in result.sessions] == [
        ("client", "planted", 5)
    ]
    assert result.fields == result.between == result.sides == ()
    assert {view.order for view in result.reuse} == set(PromptOrder) - {PromptOrder.HOISTED}
    assert all(view.without == view.with_rules == view.with_more for view in result.reuse)
    assert all(0.5 < view.without < 1 for view in result.reuse)
    shares = {part.name: part.share for part in result.parts}
    assert list(shares) == ["tools", "system", "history", "last message"]
    assert sum(shares.values()) == pytest.approx(1)
    assert not any(part.changed for part in result.parts)


@pytest.mark.parametrize("named", [True, False])
def test_our_own_doctor_s_requests_are_left_out(named):
    """Old captures have them: under its name, or (as a HAR) with its user agent alone."""
    doctors = [
        replace(
            but(record, headers=((b"User-Agent", b"cacheproxy-doctor/1"),)),
            session=Session(DOCTOR, "x") if named else None,
        )
        for record in captured(chat(3))
    ]
    theirs = captured(chat(5))
    assert inspect([*doctors, *theirs, *doctors]) == inspect(theirs)
    lanes = lanes_of([*doctors, *theirs])
    assert [turn.index for lane in lanes for turn in lane.turns] == [3, 4, 5, 6, 7]


def test_what_a_field_costs_and_what_a_rule_brings_back():
    records = captured(plant(anthropic(5), with_uuid))
    result = inspect(records, [IDS])
    (field,) = result.fields
    assert (field.rules, field.count) == (("ids",), 4)
    assert result.rules == ("ids",)
    tools, system, *_ = result.parts
    assert (system.name, system.changed, system.breaks) == ("system", 4, 4)
    assert system.breaks_at > tools.chars > 1000
    tools_first, system_first = result.reuse
    assert system_first.without < tools_first.without < tools_first.with_rules
    assert tools_first.with_rules == tools_first.with_more > 0.7


def test_a_rule_that_is_off_is_counted_apart():
    """And the parts are as the server's template orders them."""
    records = captured(plant(anthropic(5), with_uuid))
    off = replace(IDS, default=False)
    result = inspect(records, [off], orders=[PromptOrder.SYSTEM_FIRST])
    (reuse,) = result.reuse
    assert reuse.without == reuse.with_rules < reuse.with_more
    assert (result.rules, result.more) == ((), ("ids",))
    assert inspect(records, [off], ["ids"]).more == ()
    assert result.parts[1].breaks_at < 1000


@pytest.mark.parametrize("bodies", [anthropic, chat])
def test_a_system_message_that_comes_late_breaks_where_it_is_hoisted(bodies):
    """Appended in its place it breaks nothing; moved to the head it pushes the rest on."""

    def with_late(body, turn):
        for number in range(turn):
            late = {"role": "system", "content": f"{900 - number} tokens left"}
            body["messages"].insert(2 + 4 * number, late)

    result = inspect(captured(plant(bodies(4), with_late)))
    assert (result.late, result.most_late) == (3, 3)
    reuse = {view.order: view.without for view in result.reuse}
    assert set(reuse) == set(PromptOrder)
    assert (
        reuse[PromptOrder.HOISTED]
        < reuse[PromptOrder.SYSTEM_FIRST]
        == reuse[PromptOrder.TOOLS_FIRST]
    )
    (hoisted,) = inspect(captured(plant(bodies(4), with_late)), orders=[PromptOrder.HOISTED]).parts[
        1:2
    ]
    assert (hoisted.name, hoisted.breaks) == ("system", 3)


def test_side_requests_that_come_between_turns_evict():
    first, second, third = anthropic(3)
    title = {"model": "m", "system": "title", "messages": [{"role": "user", "content": "t"}]}
    agent = {**first, "tools": [tool("search")], "system": prose("agent")}
    result = inspect(captured([title, first, agent, agent, second, third]))
    assert [(side.requests, side.tools, side.evictions) for side in result.sides] == [
        (1, 0, 0),
        (2, 1, 1),
    ]
    assert [view.turns for view in result.sessions] == [3]
    assert result.fields == ()


def test_a_subagent_of_its_own_session_is_beside_its_parent():
    """As the client's headers say."""
    first, second = captured(anthropic(2))
    own = ((b"x-claude-code-session-id", b"a"),)
    agents = (*own, (b"x-claude-code-agent-id", b"b"))
    result = inspect(
        [but(first, headers=own), but(first, headers=agents), but(second, headers=own)]
    )
    assert [view.id for view in result.sessions] == ["a"]
    assert [side.evictions for side in result.sides] == [1]


def test_a_conversation_without_an_id_is_found_again_after_its_first_message_changed():
    def change(body, turn):
        body["messages"][1]["content"] = f"{prose('files' if turn < 2 else 'others', 160)}"

    result = inspect([but(one, headers=()) for one in captured(plant(chat(4), change))])
    assert [view.turns for view in result.sessions] == [4]
    assert [field.path for field in result.fields] == ["/messages/1/content"]


def test_what_differs_between_sessions_is_told_apart():
    records = [
        but(one, headers=((b"x-session-id", b"s%d" % number),))
        for number in range(3)
        for one in captured(plant(anthropic(2), lambda body, _, n=number: with_uuid(body, n)))
    ]
    result = inspect(records, [IDS])
    assert result.fields == ()
    assert [(field.kind, field.count, field.rules) for field in result.between] == [
        (ChangeKind.UUID, 2, ("ids",))
    ]


def test_a_compaction_is_counted():
    bodies = anthropic(4)
    bodies[3]["messages"] = [{"role": "user", "content": prose("summary")}]
    result = inspect(captured(bodies))
    assert (result.replaced, result.fields) == (1, ())


def test_requests_without_a_prompt_are_left_out():
    records = [
        recorded("GET", "/v1/models"),
        recorded("POST", "/v1/messages", body=b"{"),
        *captured(chat(1)),
    ]
    result = inspect(records)
    assert (result.requests, result.prompts, result.steps) == (3, 1, 0)
    assert inspect([]).prompts == 0


def test_tokens_are_measured_where_a_server_counted():
    bodies = captured(chat(2))
    assert inspect(bodies).measured is False
    result = inspect([replace(one, usage=Usage(500, 0)) for one in bodies])
    assert result.measured
    assert result.chars_per_token == pytest.approx(sum(part.chars for part in result.parts) / 500)


def test_openclaw_as_it_was_described_before_february_2026():
    """No capture of it: a message id in the system text, a clock before what the user wrote."""
    found = configured(Config())
    if "openclaw-message-id" not in {rule.name for rule in found.rules}:
        pytest.skip("the client package is not installed")

    def change(body, turn):
        meta = {"schema": "openclaw.inbound_meta.v1", "message_id": numbered("uuid", turn)}
        fenced = f"```json\n{json.dumps(meta, indent=2)}\n```\n"
        heading = "## Inbound Context (trusted metadata)"
        set_system(body, lambda text: f"{text}\n{heading}\n{fenced}")
        for message in body["messages"]:
            if message["role"] == "user":
                message["content"] = f"[Wed 2026-02-18 20:{turn + 10} UTC] {message['content']}"

    result = inspect(captured(plant(chat(4), change)), found.rules, found.active)
    assert [(one.path, one.kind, one.rules, one.covered) for one in result.fields] == [
        ("/messages/0/content", ChangeKind.UUID, ("openclaw-message-id",), 3),
        ("/messages/*/content", ChangeKind.CLOCK, ("openclaw-timestamp",), 3),
    ]
    tools_first, system_first = result.reuse
    assert system_first.without < 0.4
    assert system_first.with_rules > 0.7
    assert tools_first.without < tools_first.with_rules
