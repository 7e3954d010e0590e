"""Which breaks raise an alarm: all that cost much, and nothing in recorded traffic."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.plugin.packages import configured
from cacheproxy.record.alarms import AlarmLimits, Alarms
from cacheproxy.testing import capture_name, find_captures, load_capture
from tests.core.perfect import Server, exchanges
from tests.core.planting import numbered, prose
from tests.observe.exchanges import body, exchange

DAY = 86_400.0
ALL = configured(Config())
NO_RULES = configured(Config(disable=tuple(ALL.active)))


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


# What is told, how often, and from where on.

COMMAND = "cacheproxy diagnose 3"


def broken(lost=25_000, reused=1_000, seconds=30.0, reason=Reason.EVICTED, **more):
    """A turn that lost the cache."""
    verdict = Verdict(
        Judgement.BREAK if reason else Judgement.OK,
        reason,
        lost=TokenCount(lost, "measured"),
        seconds_lost=seconds,
    )
    fields = {"turn": 3, "number": 3, "verdict": verdict, "usage": Usage(lost + reused, reused)}
    return exchange(body("a"), **fields | more)


def fine(reused=20_000):
    return broken(lost=10, reused=reused, seconds=0.1, reason=None)


@pytest.fixture
def alarms():
    return Alarms(AlarmLimits())


def test_an_alarm_names_cause_cost_and_command(alarms):
    """In words; and where it happened."""
    alarm = alarms.see(broken(), 0.0, " --proxy http://localhost:9")
    assert alarm.command == f"{COMMAND} --proxy http://localhost:9"
    assert alarm.title == "agent/s lost its prompt cache"
    assert alarm.text == "The server had dropped the earlier prompt. 25,000 tokens, 30 s lost."
    assert (alarm.client, alarm.session, alarm.turn) == ("agent", "agent/s", 3)
    assert (alarm.upstream, alarm.at) == ("http://localhost:8080", 1_700_000_001.0)


def test_a_cause_is_told_once_a_day_in_each_conversation(alarms):
    """Another cause, and another conversation, have alarms of their own."""
    assert alarms.see(broken(), 0.0)
    assert alarms.see(broken(), DAY - 1) is None
    assert alarms.see(broken(reason=Reason.MODEL_CHANGED), DAY - 1)
    assert alarms.see(broken(session="other"), DAY - 1)
    assert alarms.see(broken(), DAY)


def test_a_subagent_is_part_of_its_conversation(alarms):
    """What breaks in both is told once."""
    own, sub = Session("agent", "s"), Session("agent", "s:helper")
    assert alarms.see(replace(broken(), session=own), 0.0)
    assert alarms.see(replace(broken(), session=sub), 0.0) is None


@pytest.mark.parametrize(
    "quiet",
    [
        broken(lost=19_999, seconds=39.9),
        broken(lost=19_999, seconds=None),
        broken(side=True),
        fine(),
        replace(broken(), verdict=None),
        replace(broken(), verdict=Verdict(Judgement.BREAK, Reason.PREVIOUS_NOT_FOUND)),
        replace(broken(), verdict=Verdict(Judgement.UNKNOWN, lost=TokenCount(90_000, "estimated"))),
        replace(broken(), session=None),
    ],
)
def test_what_costs_little_or_is_not_known_raises_none(alarms, quiet):
    """Nor does a request beside the conversation."""
    assert alarms.see(quiet, 0.0) is None


def test_lost_seconds_are_enough(alarms):
    """On a slow machine few tokens take long."""
    assert alarms.see(broken(lost=2_000, seconds=40.0), 0.0)


def test_small_breaks_raise_one_when_they_add_up(alarms):
    """Where the last turns reused less than half together; it names what they lost in all."""
    assert alarms.see(broken(lost=9_000, seconds=None), 0.0) is None
    assert alarms.see(broken(lost=9_000, seconds=None), 0.0) is None
    alarm = alarms.see(broken(lost=9_000, seconds=None), 0.0)
    assert (alarm.tokens, alarm.seconds, alarm.turns) == (27_000, None, 3)
    assert alarm.text.endswith(". 27,000 tokens lost in 3 turns.")


def test_small_breaks_among_good_turns_raise_none(alarms):
    """Most was reused."""
    turns = [broken(lost=9_000), fine(), fine()] * 10
    assert not any(alarms.see(each, 0.0) for each in turns)


def test_nought_switches_a_limit_off():
    """All of them, if they all are."""
    assert Alarms(AlarmLimits(tokens=0)).see(broken(seconds=None), 0.0) is None
    assert Alarms(AlarmLimits(seconds=0)).see(broken(lost=5, seconds=1e6), 0.0) is None
    small = Alarms(AlarmLimits(reuse=0))
    assert not any(small.see(broken(lost=9_000, seconds=None), 0.0) for _ in range(9))


def test_names_are_cut_and_bare(alarms):
    """A client names itself and its sessions: with a key, or what moves a cursor."""
    key = "sk-ant-api03-" + "a1B2" * 12
    alarm = alarms.see(replace(broken(), session=Session(f"x\x1b[2J{key}", "s" * 999)), 0.0)
    assert key not in repr(alarm)
    assert "\x1b" not in alarm.title
    assert len(alarm.title) < 100


def test_memory_is_bounded(alarms):
    """Ten times as many conversations take no more than some."""
    for number in range(10_000):
        alarms.see(broken(session=f"s{number}"), 0.0)
    assert len(alarms._turns) + len(alarms._raised) <= 5_000
