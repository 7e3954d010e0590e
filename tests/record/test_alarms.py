"""Which breaks raise an alarm: all that cost much, and nothing in recorded traffic."""

import copy
import json

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.plugin.packages import configured
from cacheproxy.record.alarms import AlarmLimits, Alarms
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.testing import capture_name, find_captures, load_capture
from tests import installed, transcript
from tests.core.perfect import Server, exchanges
from tests.core.planting import prose
from tests.record.test_transcripts import broken

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


def without_old_thinking(request):
    """What a template renders that drops the thinking of finished turns."""
    said = copy.deepcopy(request.json)
    last = max(n for n, one in enumerate(said["messages"]) if isinstance(one["content"], str))
    for one in said["messages"][:last]:
        if isinstance(one["content"], list):
            one["content"] = [each for each in one["content"] if each["type"] != "thinking"]
    return sent(said)


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


def test_all_that_is_said():
    transcript.holds("alarms_cases.txt", globals())
