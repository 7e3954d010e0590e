"""Which breaks raise an alarm: all that cost much, and nothing in recorded traffic."""

import copy
import json

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.plugin.packages import configured
from cacheproxy.record.alarms import AlarmLimits, Alarms
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.testing import capture_name, find_captures, load_capture
from tests import installed
from tests.core.perfect import Server, exchanges
from tests.core.planting import numbered, prose
from tests.record.test_transcripts import broken

DAY = 86_400.0
ALL = configured(Config(), installed.packages())
NO_RULES = configured(Config(disable=tuple(ALL.active)), ALL.packages)


def raised(requests, server=None, known=NO_RULES, limits=None):
    """The numbers of the requests that raise an alarm, each with the alarm."""
    alarms = Alarms(limits or AlarmLimits())
    seen = exchanges(requests, server or Server(), known)
    found = ((each.number, alarms.see(each, float(each.number))) for each in seen)
    return {number: alarm for number, alarm in found if alarm is not None}


@pytest.mark.slow
@pytest.mark.parametrize("order", [PromptOrder.TOOLS_FIRST, PromptOrder.SYSTEM_FIRST])
def test_recorded_traffic_raises_none(order):
    """All captures, with the rules as installed, at a server that forgets nothing."""
    found, turns = {}, 0
    for file in find_captures("*.jsonl", __file__):
        requests = load_capture(file)
        turns += len(requests)
        found |= {
            (capture_name(file), number): alarm
            for number, alarm in raised(requests, Server(order), ALL).items()
        }
    assert not found
    assert turns > 200


TOOLS = (
    *("read", "write", "edit", "list", "find", "grep"),
    *("bash", "fetch", "plan", "ask", "task", "stop"),
)
TURNS = 6
BROKEN = 4
"""The request that is another than the one before, counted from 1."""


def long_conversation(turns=TURNS):
    """Bodies of 40,000 tokens: an agent an hour into its work, and a client that nobody knows."""
    tools = [{"name": name, "description": prose(name, 600), "input_schema": {}} for name in TOOLS]
    system = f"You are an agent.\n{prose('system', 6_000)}"
    messages = [{"role": "user", "content": f"Look at it.\n{prose('first', 400)}"}]
    for call in range(8):
        thinking = {"type": "thinking", "thinking": prose(f"thought {call}", 80), "signature": "s"}
        use = {"type": "tool_use", "id": f"c{call}", "name": "read", "input": {"path": "x"}}
        result = {"tool_use_id": f"c{call}", "content": prose(f"file {call}", 2_200)}
        messages += [
            {"role": "assistant", "content": [thinking, use]},
            {"role": "user", "content": [{"type": "tool_result", **result}]},
        ]
    bodies = []
    for turn in range(turns):
        shown = {"model": "m", "tools": tools, "system": system, "messages": messages}
        bodies.append(copy.deepcopy(shown))
        messages = [
            *messages,
            {"role": "assistant", "content": prose(f"said {turn}", 80)},
            {"role": "user", "content": prose(f"asked {turn}", 40)},
        ]
    return bodies


def sent(body, session="one"):
    headers = ((b"user-agent", b"nobody/1.0"), (b"x-session-id", session.encode()))
    return Request("POST", "/v1/messages", headers, json.dumps(body).encode())


def in_system(what):
    """A volatile thing near the start of the system text, another from the broken request on."""

    def change(body, number):
        head, _, rest = body["system"].partition("\n")
        body["system"] = f"{head}\n{what(number >= BROKEN)}\n{rest}"

    return change


def git_status(later):
    changed = "M src/main.py\n?? notes.txt" if later else "M src/main.py"
    return f"gitStatus: This is the git status.\nCurrent branch: main\nStatus:\n{changed}\n"


def tools_reordered(body, number):
    if number >= BROKEN:
        body["tools"].reverse()


def model_changed(body, number):
    body["model"] = "m" if number < BROKEN else "another"


def system_rewritten(body, number):
    if number >= BROKEN:
        body["system"] = prose("other words", 6_000)


def history_edited(body, number):
    if number >= BROKEN:
        body["messages"][2]["content"][0]["content"] = "[cut]"


SEEDED = {
    "date": (in_system(lambda later: f"Today is 2026-11-2{1 + later}."), Reason.SYSTEM_CHANGED),
    "git status": (in_system(git_status), Reason.SYSTEM_CHANGED),
    "clock": (in_system(lambda later: f"Now: 14:0{1 + later}:17"), Reason.SYSTEM_CHANGED),
    "uuid": (in_system(lambda later: f"id: {numbered('uuid', later)}"), Reason.SYSTEM_CHANGED),
    "tools reordered": (tools_reordered, Reason.TOOLS_CHANGED),
    "model changed": (model_changed, Reason.MODEL_CHANGED),
    "system rewritten": (system_rewritten, Reason.SYSTEM_CHANGED),
    "message edited": (history_edited, Reason.MESSAGES_CHANGED),
}


@pytest.mark.parametrize("seeded", SEEDED)
def test_the_first_break_of_a_long_conversation_raises_one(seeded):
    """Once: what has changed stays so, and nothing else breaks."""
    change, reason = SEEDED[seeded]
    bodies = long_conversation()
    for number, each in enumerate(bodies, 1):
        change(each, number)
    found = raised(map(sent, bodies), Server(PromptOrder.SYSTEM_FIRST))
    assert {number: alarm.cause for number, alarm in found.items()} == {BROKEN: reason}
    assert found[BROKEN].tokens >= AlarmLimits().tokens


def without_old_thinking(request):
    """What a template renders that drops the thinking of finished turns."""
    said = copy.deepcopy(request.json)
    last = max(n for n, one in enumerate(said["messages"]) if isinstance(one["content"], str))
    for one in said["messages"][:last]:
        if isinstance(one["content"], list):
            one["content"] = [each for each in one["content"] if each["type"] != "thinking"]
    return sent(said)


def test_a_template_that_drops_thinking_raises_one():
    """When the user speaks again after many calls: the requests only add, nobody proves why."""
    first, second, *_ = long_conversation()
    found = raised([sent(first), sent(second)], Server(rendered=without_old_thinking))
    assert [*found] == [2]
    assert found[2].cause == Reason.UNKNOWN


def test_an_eviction_raises_one():
    """A server with one slot, and another conversation in between."""
    first, second, *_ = long_conversation()
    other = {"model": "m", "messages": [{"role": "user", "content": prose("other", 4_000)}]}
    found = raised([sent(first), sent(other, "two"), sent(second)], Server(room=1))
    assert [*found] == [3]


def test_memory_is_bounded():
    """Five times as many conversations take no more than some."""
    alarms = Alarms(AlarmLimits())
    for number in range(5_000):
        alarms.see(broken(session=f"s{number}"), 0.0)
    assert len(alarms._turns) + len(alarms._raised) <= 5_000


def failed(number, **more):
    """A prompt that failed, unless ``more`` says otherwise."""
    plain = {
        "outcome": Outcome.UPSTREAM_FAILED,
        "status": 200,
        "error": "Overloaded now",
        "turn": 1,
    }
    session = Session("agent", "s")
    asked = Request("POST", "/v1/messages")
    return Exchange(asked, float(number), number, session=session, **plain | more)


@pytest.mark.parametrize(
    ("seen", "limits", "told"),
    [
        ([{}] * 5, {}, [3]),
        ([{}, {}, {"outcome": Outcome.COMPLETE}, {}, {}], {}, []),
        ([{}, {"outcome": Outcome.CLIENT_LEFT}, {}, {}, {}], {}, [5]),
        ([{"status": 400, "turn": 0, "outcome": Outcome.COMPLETE}] * 3, {}, [3]),
        ([{"outcome": Outcome.EMPTY}] * 3, {}, []),
        ([{}] * 3, {"tokens": 0, "seconds": 0.0}, []),
    ],
)
def test_failure_after_failure_raises_one(seen, limits, told):
    alarms = Alarms(AlarmLimits(**limits))
    found = [alarms.see(failed(n, **more), float(n)) for n, more in enumerate(seen, start=1)]
    assert [n for n, alarm in enumerate(found, start=1) if alarm is not None] == told
    for alarm in filter(None, found):
        assert alarm.title == "agent/s gets no answers"
        assert alarm.text == "3 requests failed one after the other: Overloaded now."
        assert alarm.command == "cacheproxy doctor"
