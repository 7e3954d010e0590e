"""What an inspection finds in planted conversations."""

import json
from dataclasses import replace
from pathlib import Path

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
from tests import golden, installed
from tests.core.diagnose.inspected import shown
from tests.core.planting import anthropic, captured, chat, numbered, plant, prose, tool
from tests.record.recorded import but, recorded

from .test_volatile import set_system

FILE = Path(__file__).with_name("inspections.txt")
IDS = Rule("ids", "system", r"(?m)^id: (?P<volatile>\S+)", "0")
IDS_OFF = replace(IDS, default=False)
OWN = ((b"x-claude-code-session-id", b"a"),)
AGENTS = (*OWN, (b"x-claude-code-agent-id", b"b"))
DOCTORS = {"headers": ((b"User-Agent", b"cacheproxy-doctor/1"),)}


def with_uuid(body, turn):
    set_system(body, lambda text: f"id: {numbered('uuid', turn)}\n{text}")


def with_late(body, turn):
    for number in range(turn):
        late = {"role": "system", "content": f"{900 - number} tokens left"}
        body["messages"].insert(2 + 4 * number, late)


def with_another_beginning(body, turn):
    body["messages"][1]["content"] = f"{prose('files' if turn < 2 else 'others', 160)}"


def nameless(bodies):
    return [but(one, headers=()) for one in captured(bodies)]


def beside():
    """A title, and a subagent, between the turns of a conversation: they evict it."""
    first, second, third = anthropic(3)
    title = {"model": "m", "system": "title", "messages": [{"role": "user", "content": "t"}]}
    agent = {**first, "tools": [tool("search")], "system": prose("agent")}
    return captured([title, first, agent, agent, second, third])


def with_a_subagent():
    """Of a session of its own, as the client's headers say."""
    first, second = captured(anthropic(2))
    return [but(first, headers=OWN), but(first, headers=AGENTS), but(second, headers=OWN)]


def three_sessions():
    return [
        but(one, headers=((b"x-session-id", b"s%d" % number),))
        for number in range(3)
        for one in captured(plant(anthropic(2), lambda body, _, n=number: with_uuid(body, n)))
    ]


def compacted():
    bodies = anthropic(4)
    bodies[3]["messages"] = [{"role": "user", "content": prose("summary")}]
    return captured(bodies)


def counted():
    return [replace(one, usage=Usage(500, 0)) for one in captured(chat(2))]


NO_PROMPTS = [recorded("GET", "/v1/models"), recorded("POST", "/v1/messages", body=b"{")]
WITH_UUID = captured(plant(anthropic(5), with_uuid))
LATE = captured(plant(anthropic(4), with_late))
CASES = {
    "a clean conversation": (captured(chat(5)),),
    "what a field costs and what a rule brings back": (WITH_UUID, [IDS]),
    # a rule that is off is counted apart, and the parts are as the server's template orders them
    "a rule that is off": (WITH_UUID, [IDS_OFF], (), [PromptOrder.SYSTEM_FIRST]),
    "a rule that is enabled": (WITH_UUID, [IDS_OFF], ["ids"]),
    # appended in its place it breaks nothing; moved to the head it pushes the rest on
    "late system messages": (LATE,),
    "late system messages, hoisted": (LATE, [], (), [PromptOrder.HOISTED]),
    "late system messages of Chat": (captured(plant(chat(4), with_late)),),
    "side requests between turns": (beside(),),
    "a subagent of its own session": (with_a_subagent(),),
    # it is found again after its first message changed
    "a conversation without an id": (nameless(plant(chat(4), with_another_beginning)),),
    "what differs between sessions": (three_sessions(), [IDS]),
    "a compaction": (compacted(),),
    "requests without a prompt": ([*NO_PROMPTS, *captured(chat(1))],),
    "tokens that a server counted": (counted(),),
    "nothing": ([],),
}


@pytest.mark.parametrize("name", CASES)
def test_an_inspection(name):
    """Reuse: without rules, with those that are on, with all."""
    records, *rest = CASES[name]
    options = dict(zip(("rules", "active", "orders"), rest, strict=False))
    golden.agrees(FILE, name, "\n".join(shown(inspect(records, **options))))


def test_no_inspection_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


@pytest.mark.parametrize("named", [True, False])
def test_our_own_doctor_s_requests_are_left_out(named):
    """Old captures have them: under its name, or (as a HAR) with its user agent alone."""
    session = Session(DOCTOR, "x") if named else None
    doctors = [replace(but(one, **DOCTORS), session=session) for one in captured(chat(3))]
    theirs = captured(chat(5))
    assert inspect([*doctors, *theirs, *doctors]) == inspect(theirs)
    lanes = lanes_of([*doctors, *theirs])
    assert [turn.index for lane in lanes for turn in lane.turns] == [3, 4, 5, 6, 7]


def test_openclaw_as_it_was_described_before_february_2026():
    """No capture of it: a message id in the system text, a clock before what the user wrote."""
    found = configured(Config(), installed.packages())
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
