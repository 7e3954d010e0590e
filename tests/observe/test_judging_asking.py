"""A session's exchanges wait where an upstream is asked; other sessions do not."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, Rewrite, Sign
from cacheproxy.core.judge.evidence import Proof
from cacheproxy.core.servers.profile import Memory, MemoryKind, Profile
from cacheproxy.observe import judging as module
from cacheproxy.observe.judging import Judging
from tests.logs import looking
from tests.observe.asked import COUNTS, LOSES, Server, conversation, order
from tests.observe.exchanges import exchange


@pytest.fixture
def delivered():
    return []


@pytest.fixture
def asking(delivered):
    """One that judges at once, and may ask."""
    return Judging(None, delivered.extend, Store())


@pytest.fixture
def failures():
    """What was logged as a failure, unhandled ones included."""
    found = []

    def see(event):
        failure = event.get("log_failure")
        if failure is not None:
            found.append(failure.value)

    with looking(see):
        yield found


# Asking.


def test_a_sessions_exchanges_wait_for_an_answer_and_others_do_not(asking, delivered):
    """Nor do those without a prompt."""
    server = Server().known_to(asking)
    one, two, lost, after = conversation(LOSES)
    other, again = conversation(LOSES[:2], session="t")
    for each in (one, two, lost, other, after, again):
        asking([each])
    asking([exchange({}, turn=0)])
    assert order(delivered) == [("s", 1), ("s", 2), ("t", 1), ("t", 2), ("s", 0)]
    server.last.callback(None)
    assert order(delivered)[5:] == [("s", 3), ("s", 4)]
    assert [done.number for done in delivered] == [1, 2, 4, 6, 7, 3, 5]


def test_a_proof_makes_the_verdict_and_teaches(asking, delivered):
    """The server is asked for the two requests as they were sent."""
    server = Server().known_to(asking)
    one, two, lost, _ = conversation((*LOSES[:2], Usage(1040, 400), LOSES[3]))
    for each in (one, two, lost):
        asking([each])
    _, turn, waiting = server.asked[-1]
    assert (turn.before.request.body, turn.request.body) == (two.sent.body, lost.sent.body)
    assert (turn.before.tokens, turn.usage.prompt) == (1020, 1040)
    waiting.callback(Proof(1020, 1040, 400, rewrite=Rewrite.THINKING))
    verdict = delivered[-1].verdict
    assert (verdict.reason, verdict.rewrite) == (Reason.TEMPLATE_CHANGED, Rewrite.THINKING)
    assert (verdict.basis, verdict.expected.tokens) == (Basis.RENDERED, 400)
    assert server.inferred.completed(Profile()).memory.kind is MemoryKind.REWINDABLE


@pytest.mark.parametrize(
    ("reused", "kind"),
    [(400, MemoryKind.REWINDABLE), (399, MemoryKind.REWINDABLE), (396, MemoryKind.CHECKPOINTED)],
)
def test_a_few_tokens_short_of_where_prompts_part_a_checkpoint_stands(asking, reused, kind):
    """Llama.cpp saves one some four tokens before the end of a prompt; else it is to the token."""
    server = Server().known_to(asking)
    for each in conversation((*LOSES[:2], Usage(1040, reused), LOSES[3]))[:3]:
        asking([each])
    server.asked[-1][-1].callback(Proof(1020, 1040, 400, rewrite=Rewrite.THINKING))
    assert server.inferred.completed(Profile()).memory.kind is kind


def test_tokens_that_are_rendered_for_us_alone_are_no_gap(asking):
    """A mark at the head, say: the two prompts part four tokens sooner than it seems."""
    server = Server().known_to(asking)
    for each in conversation((*LOSES[:2], Usage(1040, 396), LOSES[3]))[:3]:
        asking([each])
    server.asked[-1][-1].callback(Proof(1024, 1044, 400, rewrite=Rewrite.THINKING))
    assert server.inferred.completed(Profile()).memory.kind is MemoryKind.REWINDABLE
    server.inferred.saw_checkpoint(is_close=True)
    assert server.inferred.completed(Profile()).memory.kind is MemoryKind.REWINDABLE


def test_answers_that_come_in_another_order_do_not_change_that_of_the_turns(asking, delivered):
    """Each session has a line of its own."""
    server = Server().known_to(asking)
    turns = conversation((*LOSES[:3], Usage(1060, 0)))
    others = conversation((*LOSES[:2], Usage(1040, 0)), session="t")
    for each in (*turns, *others):
        asking([each])
    first, second, third = (rest[-1] for name, *rest in server.asked if name == "prove")
    del delivered[:]
    second.callback(None)
    assert delivered == []
    third.callback(None)
    assert order(delivered) == [("t", 3)]
    first.callback(None)
    assert order(delivered)[1:] == [("s", 3), ("s", 4)]


def settle(asking, server):
    asking.settle()


def answer_nothing(asking, server):
    server.last.callback(None)


def fail(asking, server):
    server.last.errback(ValueError("kanarienvogel"))


def nonsense(asking, server):
    server.last.callback("a text")


@pytest.mark.parametrize("end", [answer_nothing, fail, nonsense, settle])
def test_however_asking_ends_each_is_delivered_once_and_in_order(asking, delivered, failures, end):
    """With the verdict that needed no answer; nothing is left, and nothing logged."""
    server = Server().known_to(asking)
    for each in conversation(LOSES):
        asking([each])
    assert len(delivered) == 2
    end(asking, server)
    assert order(delivered) == [("s", number) for number in range(1, 5)]
    assert delivered[2].verdict.reason is Reason.UNKNOWN
    assert delivered[2].profile is server.profile
    asking.settle()
    assert len(delivered) == 4
    del server.asked[:]
    gc.collect()
    assert failures == []


def test_the_next_turn_asks_again_after_a_question_that_failed(asking, delivered):
    """One bad answer is not the last word."""
    server = Server().known_to(asking)
    one, two, lost, after = conversation((*LOSES[:3], Usage(1060, 0)))
    for each in (one, two, lost):
        asking([each])
    server.last.errback(ValueError())
    asking([after])
    assert server.questions == ["started", "prove"] * 2
    server.last.callback(None)
    assert len(delivered) == 4


def test_no_more_wait_than_may(asking, delivered, monkeypatch, failures):
    """The question that has kept them waiting is given up."""
    monkeypatch.setattr(module, "_MOST_HELD", 3)
    server = Server().known_to(asking)
    lines = conversation((*LOSES, Usage(1080, 1060)))
    for each in lines[:4]:
        asking([each])
    assert order(delivered) == [("s", 1), ("s", 2)]
    asking([lines[4]])
    assert order(delivered) == [("s", 1), ("s", 2)]
    (sixth,) = conversation([Usage(1080, 1060)])
    asking([sixth])
    assert len(delivered) == 6
    assert [done.number for done in delivered] == list(range(1, 7))
    assert server.last.called
    del server.asked[:]
    gc.collect()
    assert failures == []


def test_what_still_asks_behind_a_question_that_was_given_up_goes_on_waiting(
    asking, delivered, monkeypatch
):
    """One makes room for one."""
    monkeypatch.setattr(module, "_MOST_HELD", 2)
    server = Server().known_to(asking)
    turns = conversation((*LOSES[:3], Usage(1060, 0), Usage(1080, 0)))
    for each in turns:
        asking([each])
    assert order(delivered) == [("s", 1), ("s", 2), ("s", 3)]
    for waiting in [rest[-1] for name, *rest in server.asked if name == "prove"][1:]:
        waiting.callback(None)
    assert order(delivered)[3:] == [("s", 4), ("s", 5)]


# Counters.


def test_what_an_answer_does_not_say_is_counted(asking, delivered):
    """By the server's counters, once it has ended."""
    server = Server(COUNTS).known_to(asking)
    for each, reused in zip(conversation((Usage(1000), Usage(1020))), (None, 1000), strict=True):
        asking([each])
        name, usage, waiting = server.asked[-1]
        assert (name, usage) == ("counted", each.usage)
        waiting.callback(reused)
    cold, fine = delivered
    assert (cold.verdict.judgement, cold.usage.reused) == (Judgement.COLD, None)
    assert (fine.verdict.judgement, fine.usage.reused) == (Judgement.OK, 1000)
    assert fine.usage.evaluated == 20
    assert server.questions == ["counted"] * 2


def test_what_was_counted_may_want_a_proof(asking, delivered):
    """A break that only the counters show has a cause like any other."""
    server = Server(COUNTS).known_to(asking)
    _, lost = conversation((Usage(1000), Usage(1020)))
    asking([_])
    server.last.callback(None)
    asking([lost])
    server.last.callback(0)
    assert server.questions == ["counted", "counted", "started", "prove"]
    assert len(delivered) == 1
    server.last.callback(Proof(1000, 1020, 0, rewrite=Rewrite.HOISTED))
    verdict = delivered[-1].verdict
    assert (verdict.judgement, verdict.rewrite) == (Judgement.BREAK, Rewrite.HOISTED)
    assert delivered[-1].usage.reused == 0


@pytest.mark.parametrize("end", [answer_nothing, fail, settle])
def test_what_cannot_be_counted_is_not_known(asking, delivered, end):
    """Neither a break nor well."""
    server = Server(COUNTS).known_to(asking)
    for each in conversation((Usage(1000), Usage(1020))):
        asking([each])
        end(asking, server)
    assert [done.usage.reused for done in delivered] == [None, None]
    assert delivered[-1].verdict.judgement is Judgement.UNKNOWN


def test_what_was_counted_stays_when_the_proof_fails(asking, delivered):
    """The break is shown, its cause is not known."""
    server = Server(COUNTS).known_to(asking)
    first, lost = conversation((Usage(1000), Usage(1020)))
    asking([first])
    server.last.callback(None)
    asking([lost])
    server.last.callback(0)
    asking.settle()
    verdict = delivered[-1].verdict
    assert (verdict.judgement, verdict.reason) == (Judgement.BREAK, Reason.UNKNOWN)
    assert delivered[-1].usage.reused == 0


def test_an_answer_that_tells_is_not_counted_again(asking, delivered):
    """What is said of one request is better than what is counted over all."""
    server = Server(COUNTS).known_to(asking)
    for each in conversation(LOSES[:2]):
        asking([each])
    assert len(delivered) == 2
    assert server.asked == []


def test_what_came_between_is_known_of_a_turn_that_was_counted(asking, delivered):
    """It is evidence there, too."""
    profile = replace(COUNTS, memory=Memory(slots=1))
    server = Server(profile).known_to(asking)
    first, second, third = conversation((Usage(1000), Usage(1020), Usage(1040)))
    (other,) = conversation((Usage(800),), session="t", wall=second.wall + 30)
    for each, reused in ((first, None), (second, 1000), (other, 0), (third, 0)):
        asking([each])
        server.last.callback(reused)
    server.last.callback(Proof(1020, 1040, 1020))
    verdict = delivered[-1].verdict
    assert (verdict.reason, verdict.evidence) == (Reason.EVICTED, (Sign.OTHERS,))


def test_a_turn_that_was_counted_elsewhere_has_moved(asking, delivered):
    """The turn before went to another upstream."""
    server = Server(COUNTS).known_to(asking)
    first, second = conversation((Usage(1000), Usage(1020)))
    asking([first])
    server.last.callback(None)
    server = Server(COUNTS, url="http://elsewhere").known_to(asking)
    asking([replace(second, upstream="http://elsewhere")])
    server.last.callback(0)
    assert delivered[-1].verdict.reason is Reason.MOVED
    assert server.questions == ["counted"]


# A restart.


def test_a_restart_that_is_seen_now_needs_no_proof(asking, delivered):
    """What the server had is gone, whatever it renders."""
    server = Server(began="second").known_to(asking)
    for each in conversation(LOSES[:3]):
        asking([each])
    assert server.questions == ["started"]
    verdict = delivered[-1].verdict
    assert (verdict.reason, verdict.basis) == (Reason.EVICTED, Basis.TOLD)
    assert verdict.evidence == (Sign.RESTARTED,)


@pytest.mark.parametrize("began", ["first", None])
def test_a_start_that_is_the_same_or_not_told_is_no_restart(asking, delivered, began):
    """The proof is asked for."""
    server = Server(began=began).known_to(asking)
    for each in conversation(LOSES[:3]):
        asking([each])
    assert server.questions == ["started", "prove"]
    server.last.callback(None)
    assert delivered[-1].verdict.reason is Reason.UNKNOWN


# Nobody to ask.


@pytest.mark.parametrize(
    "known", [None, Server(COUNTS, url="http://elsewhere")], ids=["nobody", "another"]
)
def test_an_upstream_that_is_not_the_one_known_now_is_not_asked(asking, delivered, known):
    """It was changed while the request was under way."""
    asking.known = {known.url: known} if known is not None else {}
    for each in conversation((*LOSES[:3], Usage(1060))):
        asking([each])
    assert len(delivered) == 4
    assert known is None or known.asked == []
    assert delivered[2].verdict.reason is Reason.UNKNOWN
    assert delivered[2].profile != COUNTS


def test_an_upstream_that_is_known_no_more_still_answers_for_its_own(asking, delivered):
    """Whoever was asked is asked to the end."""
    server = Server().known_to(asking)
    for each in conversation(LOSES[:3]):
        asking([each])
    asking.known = {"http://elsewhere": Server(url="http://elsewhere")}
    server.last.callback(Proof(1020, 1040, 0, rewrite=Rewrite.TOOLS))
    assert delivered[-1].verdict.rewrite is Rewrite.TOOLS
