"""What slots cost, and what a test prompt would push out: by figures, and with the real server."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.asking import Site
from cacheproxy.child.process import ChildProxy
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.config import Config
from cacheproxy.core.conversation.verdict import Judgement, Reason, Verdict
from cacheproxy.core.diagnose.report import report
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.judge.advice import advice
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.profile import Memory, Profile, ServerFacts
from cacheproxy.core.servers.status import Slot
from cacheproxy.doctor import server_checks
from cacheproxy.doctor.examine import Inputs, examine
from cacheproxy.doctor.facts import look_at_proxy
from cacheproxy.doctor.guard import at_stake, kept
from cacheproxy.doctor.record import NO_RECORD
from cacheproxy.doctor.report import Working, conclude
from cacheproxy.doctor.trial import Trial
from cacheproxy.record.exchange import Exchange
from cacheproxy.web.answers import todo
from tests.doctor import builders
from tests.doctor.builders import facts, recorded

NEW = Slot(0, 65_536, 0, busy=False)


def used(number, task, held, *, busy=False):
    return Slot(number, 65_536, held, busy, task)


@pytest.mark.parametrize(
    ("slots", "tokens"),
    [
        ((), None),
        ((NEW,), 0),
        ((used(0, 5, 20_050),), 20_050),
        ((used(0, 5, 700),), 0),
        ((used(0, 5, 20_050, busy=True),), 20_050),
        ((NEW, used(1, 5, 20_050)), 0),
        ((used(0, 9, 700), used(1, 5, 20_050)), 20_050),
        ((used(0, 5, 700), used(1, 9, 20_050)), 0),
        ((used(0, 9, 30_000), used(1, 5, 20_050)), 20_050),
        ((used(0, 9, 700), used(1, 5, 0)), 0),
        ((used(0, 5, 0), used(1, 9, 20_050)), 0),
        ((NEW, used(1, 5, 40_000), used(2, 9, 24_000)), 40_000),
        ((used(0, 5, 700, busy=True), used(1, 9, 20_050)), 20_050),
    ],
)
def test_what_the_next_prompt_takes(slots, tokens):
    """Unused slots first, else the one used longest ago; short prompts are cheap."""
    assert at_stake(slots, keeps=False) == tokens
    assert at_stake(slots, keeps=True) == 0


def held_by(number, session, turn, prompt, reused, **more):
    return builders.seen(number, turn, prompt, reused, session=session, seconds=0.5, **more)


MAIN = held_by(1, "a", 1, 11_000, 0), held_by(3, "a", 2, 11_200, 11_000)
TITLE = held_by(2, "a", 1, 500, 7, side=True)


@pytest.mark.parametrize(
    ("between", "is_kept"),
    [
        (TITLE, True),
        (held_by(2, "b", 1, 500, 7), True),
        (held_by(2, "b", 1, 5_000, 4_500), False),
        (held_by(2, "b", 1, 9_000, 7), False),
        (held_by(2, "b", 1, 500, None), False),
        (held_by(2, "b", 1, 500, 7, status=400), False),
        (held_by(2, "b", 1, 500, 7, wall=2.9), False),
        (held_by(2, "b", 1, 500, 7, wall=1.2), False),
    ],
)
def test_a_conversation_that_outlived_another_prompt_shows_the_ram_cache(between, is_kept):
    """Unless that prompt may have held what was reused, or was worked on at another time."""
    assert kept(recorded(MAIN[0], between, MAIN[1]), 1, 0.1) is is_kept


def test_nothing_is_shown_without_such_a_turn():
    """Nor by a server with more slots than one, nor by a turn that lost its conversation."""
    assert not kept(recorded(*MAIN), 1, 0.1)
    assert not kept(NO_RECORD, 1, 0.1)
    assert not kept(recorded(MAIN[0], TITLE, MAIN[1]), 2, 0.1)
    assert not kept(recorded(MAIN[0], TITLE, held_by(3, "a", 2, 11_200, 7)), 1, 0.1)


def memory(trials=(), **more):
    return list(server_checks.memory(facts(trials=tuple(trials), **more)))


def test_what_the_proxy_says_of_dropped_prompts_is_said(peer):
    """A title that took the slot, say: what helps is told by its To do, and by nothing else."""
    found = report(
        Exchange(Request("POST", ""), number=6), Verdict(Judgement.BREAK, Reason.EVICTED)
    )
    top = {"number": 6, "reason": "evicted", "shape": None, "share": 0.4}
    profile = Profile(server=ServerFacts("llama-server"), memory=Memory(has_ram=False))
    found = replace(found, advice=advice(Verdict(Judgement.BREAK, Reason.EVICTED), profile))
    sums = {"prompt": 9, "reused": 5, "evaluated": 4}
    cards = todo(profile, None, sums, [top, top | {"reason": "moved"}], lambda _: found)
    assert [card["id"] for card in cards] == ["evicted", "moved"]
    health = {"version": "9", "upstream": {"url": builders.SERVER}}
    pages = {"/_cacheproxy/health": health, "/_cacheproxy/data": {"todo": cards}}
    proxy = look_at_proxy(peer(pages).url, {})
    (line,) = memory(proxy=proxy)
    assert (line.name, line.state) == ("slots", FindingState.WARN)
    assert line.text == "The server had dropped the earlier prompt"
    assert line.fix.startswith("llama-server: --cache-ram 8192: ")
    assert memory(proxy=replace(proxy, upstream="http://localhost:1")) == []
    assert memory() == []


@pytest.mark.parametrize(("reused", "state"), [(639, FindingState.OK), (33, FindingState.WARN)])
def test_our_own_prompt_that_came_back_or_not(reused, state):
    """On a server with one slot it proves the RAM cache, or that there is none."""
    trial = Trial(MESSAGES, through_proxy=True, again=builders.shot(reused))
    (found,) = memory(trials=[trial])
    assert (found.name, found.state) == ("cache-ram", state)


ONE, FOUR = {"n_parallel": 1}, {"n_parallel": 4, "kv_unified": True}
CACHE, NO_CACHE = {"cache_ram_mib": 8192}, {"cache_ram_mib": 0}
AGENT = {"User-Agent": "opencode/1.18", "X-Session-Id": "3f9a"}


class Talk:
    """A conversation of about 2,500 tokens."""

    def __init__(self, url):
        self.site = Site(url, AGENT)
        self.messages = [{"role": "user", "content": "The garden is long and narrow. " * 350}]

    def turn(self):
        """Send the next turn; return the tokens evaluated and the length of the prompt."""
        request = {"model": "random", "max_tokens": 1, "messages": self.messages}
        answer = self.site.post("/v1/chat/completions", json.dumps(request).encode(), 60)
        usage = answer.json()["usage"]
        reused = usage["prompt_tokens_details"]["cached_tokens"]
        self.messages += [
            {"role": "assistant", "content": "It is grey."},
            {"role": "user", "content": "And the river?"},
        ]
        return usage["prompt_tokens"] - reused, usage["prompt_tokens"]

    def title(self):
        request = {"messages": [{"role": "user", "content": "stone river table " * 120}]}
        request |= {"model": "random", "max_tokens": 1}
        site = Site(self.site.url, {"User-Agent": "opencode/1.18", "X-Session-Id": "title"})
        assert site.post("/v1/chat/completions", json.dumps(request).encode(), 60).status == 200


@pytest.fixture
def around(model, tmp_path):
    """Let doctor come between two turns; return its report, and what the second turn cost."""

    def around(settings, *, title=False, **more):
        with (
            LlamaServer(model, **({"n_ctx": 16_384} | settings)) as server,
            ChildProxy(server.url) as proxy,
        ):
            talk = Talk(proxy.url)
            for number in range(2):
                talk.turn()
                if title and not number:
                    talk.title()
            inputs = Inputs(Config(), proxy.url, None, {}, tmp_path, **more)
            known, found = examine(inputs, lambda _: None)
            return known, found, *talk.turn()

    return around


@pytest.mark.llama
@pytest.mark.parametrize(
    ("settings", "title"),
    [
        (ONE | NO_CACHE, True),
        (ONE | CACHE, False),
        (FOUR | NO_CACHE, False),
        (FOUR | NO_CACHE, True),
        (FOUR | CACHE, False),
    ],
)
def test_the_conversation_outlives_doctor(around, settings, title):
    """Whatever the server's settings: the next turn evaluates what is new in it."""
    *_, evaluated, prompt = around(settings, title=title)
    assert prompt > 2000
    assert evaluated < 100


@pytest.mark.llama
@pytest.mark.parametrize(
    ("settings", "costs"), [(FOUR | NO_CACHE, True), (FOUR | CACHE, False), (ONE | CACHE, False)]
)
def test_doctor_that_is_told_to_send_costs_the_conversation(around, settings, costs):
    """Else there would be nothing to ask for; with the RAM cache it costs nothing."""
    *_, evaluated, prompt = around(settings, send=True)
    assert (evaluated > prompt - 100) is costs
    assert (evaluated < 100) is not costs


@pytest.mark.llama
def test_one_slot_without_a_sign_of_a_ram_cache(around):
    """It asks, with the figure; told no, it sends nothing, and says which option does."""
    asked = []
    known, findings, evaluated, _ = around(ONE | NO_CACHE, ask=asked.append)
    (question,) = asked
    assert "600 tokens; the only slot holds a conversation of 2," in question
    (found,) = [one for one in findings if one.name == "reuse"]
    assert found.text.startswith("test prompts were not sent: the only slot holds")
    assert "--send" in found.fix
    assert known.trials == ()
    assert conclude(known, findings).answer is Working.YES  # by the agent's own turns
    assert evaluated < 100


@pytest.mark.llama
def test_told_yes_it_sends_and_proves_that_there_is_no_ram_cache(around):
    """Its own first prompt does not come back, nor does the conversation."""
    known, findings, evaluated, prompt = around(ONE | NO_CACHE, ask=lambda _: True)
    assert evaluated > prompt - 100
    (found,) = [one for one in findings if one.name == "cache-ram"]
    assert found.fix == "start llama-server with --cache-ram 8192"
    assert [trial.path for trial in known.trials] == ["/v1/chat/completions", "/v1/messages"]


@pytest.mark.llama
@pytest.mark.parametrize("slots", [ONE, FOUR])
def test_where_the_ram_cache_shows_nobody_is_asked(around, slots):
    """A title between two turns is enough."""
    known, _, evaluated, _ = around(slots | CACHE, title=True, ask=pytest.fail)
    assert len(known.trials) == 2
    assert evaluated < 100
