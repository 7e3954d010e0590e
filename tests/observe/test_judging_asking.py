"""A session's exchanges wait where an upstream is asked; other sessions do not."""

import gc
from dataclasses import replace

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, Rewrite, Sign
from cacheproxy.core.judge.evidence import Proof
from cacheproxy.core.kinds.belief import MEMORY, TAKEN
from cacheproxy.core.kinds.profile import Memory, MemoryKind, described
from cacheproxy.core.kinds.status import (
    Look,
    MetricsPage,
    Sample,
    ServerFigures,
    Slot,
    UpstreamState,
)
from cacheproxy.observe import judging as module
from cacheproxy.observe.judging import Judging
from tests.logs import looking
from tests.observe.asked import COUNTS, HERE, LOSES, TELLS, Server, conversation, order
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


def asked(asking, usages, server, *answers, turns=None):
    """Hand on turns; each question but the last ones is answered at once."""
    server.known_to(asking)
    left = list(answers)
    for each in turns or conversation(usages):
        asking([each])
        while left and server.asked and not getattr(server.last, "called", True):
            server.last.callback(left.pop(0))
    return server


def test_a_sessions_exchanges_wait_for_an_answer_and_others_do_not(asking, delivered):
    one, two, lost, after = conversation(LOSES)
    other, again = conversation(LOSES[:2], session="t")
    turns = [one, two, lost, other, after, again, exchange({}, turn=0)]
    server = asked(asking, (), Server(), turns=turns)
    assert order(delivered) == [("s", 1), ("s", 2), ("t", 1), ("t", 2), ("s", 0)]
    server.last.callback(None)
    assert order(delivered)[5:] == [("s", 3), ("s", 4)]
    assert [done.number for done in delivered] == [1, 2, 4, 6, 7, 3, 5]


@pytest.mark.parametrize(
    ("reused", "head", "kind"),
    [
        # llama.cpp saves a checkpoint some four tokens before the end of a prompt; else it is to
        # the token, unless some (a mark at the head) are rendered for us alone; that one is missing
        # proves nothing here, where nobody looked at the slots
        (400, 0, MemoryKind.REWINDABLE),
        (399, 0, MemoryKind.REWINDABLE),
        (396, 0, MemoryKind.UNKNOWN),
        (396, 4, MemoryKind.REWINDABLE),
    ],
)
def test_a_proof_makes_the_verdict_and_teaches(asking, delivered, reused, head, kind):
    """The server is asked for the two requests as they were sent."""
    one, two, lost = conversation((*LOSES[:2], Usage(1040, reused)))
    server = asked(asking, (), Server(), turns=[one, two, lost])
    _, turn, waiting = server.asked[-1]
    assert (turn.before.request.body, turn.request.body) == (two.sent.body, lost.sent.body)
    assert (turn.before.tokens, turn.usage.prompt) == (1020, 1040)
    waiting.callback(Proof(1020 + head, 1040 + head, 400, rewrite=Rewrite.THINKING))
    verdict = delivered[-1].verdict
    assert server.profile.memory.kind is kind
    if kind is MemoryKind.REWINDABLE:
        assert (verdict.reason, verdict.rewrite) == (Reason.TEMPLATE_CHANGED, Rewrite.THINKING)
        assert (verdict.basis, verdict.expected.tokens) == (Basis.RENDERED, 400)
        server.beliefs.saw(MEMORY, MemoryKind.CHECKPOINTED, MODEL)
        assert server.profile.memory.kind is kind
        assert "seen once, against it 1" in server.profile.grounds


MODEL = None, "m"
WALL = 1_700_000_000.0
HAS_SLOTS = replace(TELLS, memory=Memory(slots=4), counts_reuse=True)


def looked(after, *slots, evaluated=0, start="first"):
    """A look some seconds after the first turn; ``slots``: the tokens that each holds."""
    sample = Sample(ServerFigures(evaluated=evaluated))
    found = tuple(Slot(number, 9999, used, busy=False) for number, used in enumerate(slots))
    look = Look(HERE, WALL + after, 0.0, UpstreamState.UP, MetricsPage.ON, sample, slots=found)
    return replace(look, start=start)


BEFORE = looked(90, 0, 1029, evaluated=5000)
AFTER = looked(122, 0, 1049, evaluated=5640)
INNOCENT = {
    "nobody looked before": (None, AFTER),
    "nobody looked behind it": (BEFORE, None),
    "another was read, past us": (BEFORE, looked(122, 0, 1049, evaluated=5740)),
    "it got another slot": (BEFORE, looked(122, 1049, 1029, evaluated=5640)),
    "the slot has gone on": (BEFORE, looked(122, 0, 1080, evaluated=5640)),
    "another had the slot": (looked(90, 0, 900, evaluated=5000), AFTER),
    "two hold as much": (looked(90, 1029, 1029, evaluated=5000), AFTER),
    "the look is older": (replace(BEFORE, wall=WALL + 30), AFTER),
    "no counters": (replace(BEFORE, metrics=MetricsPage.OFF), AFTER),
    "started anew": (BEFORE, replace(AFTER, start="second")),
}


def lost_with(asking, delivered, looks, reused=400, shared=700, **more):
    """A turn that reused less than it shares, with a look before it and one behind."""
    counts = (Usage(1000, 0, 10), Usage(1020, 1000, 10), Usage(1040, reused, 10))
    turns = [*conversation(counts, **more)]
    server = Server(HAS_SLOTS)
    before, server.looks = looks[0], [looks[1]]
    if before is not None:
        asking.looked(before)
    asked(asking, (), server, turns=turns)
    server.last.callback(Proof(1020, 1040, shared, rewrite=Rewrite.THINKING))
    return server, delivered[-1].verdict


@pytest.mark.parametrize(("reused", "shared"), [(400, 700), (400, 404)])
def test_a_checkpoint_is_believed_where_nothing_else_can_have_had_the_slot(
    asking, delivered, reused, shared
):
    """The pages show the slot before and behind the turn, and that nothing else was read."""
    server, verdict = lost_with(asking, delivered, (BEFORE, AFTER), reused, shared)
    assert server.profile.memory.kind is MemoryKind.CHECKPOINTED
    assert described(server.profile)["memory"].startswith(
        "the server can only go back to its checkpoints (less was reused than stayed equal, "
        "with nothing else in the slot: seen once, last "
    )
    if shared == 700:
        assert (verdict.reason, verdict.beneath) == (Reason.CHECKPOINT, Reason.TEMPLATE_CHANGED)
    server.beliefs.saw(MEMORY, MemoryKind.REWINDABLE, MODEL)
    assert server.profile.memory.kind is MemoryKind.REWINDABLE


# Before the three turns: those before had 1,000 and 20 tokens evaluated.
LONG_AGO = looked(-9, 0, 0, evaluated=5000)
ONE_SLOT = replace(LONG_AGO, slots=LONG_AGO.slots[:1])


@pytest.mark.parametrize(
    ("before", "evaluated", "kind"),
    [
        (ONE_SLOT, 6660, MemoryKind.CHECKPOINTED),
        (ONE_SLOT, 6661, MemoryKind.UNKNOWN),  # somebody else's
        (LONG_AGO, 6660, MemoryKind.UNKNOWN),  # which of two slots had it is not known
        (
            replace(ONE_SLOT, wall=WALL + 0.5),
            6660,
            MemoryKind.CHECKPOINTED,
        ),  # during a turn of ours
    ],
)
def test_one_slot_is_always_the_same(asking, delivered, before, evaluated, kind):
    """No look in between is needed: all that was read since an older one is ours."""
    after = looked(122, *[1049, 0][: len(before.slots)], evaluated=evaluated)
    server, _ = lost_with(asking, delivered, (before, after))
    assert server.profile.memory.kind is kind


@pytest.mark.parametrize("looks", INNOCENT.values(), ids=INNOCENT)
def test_where_something_else_may_have_had_the_slot_nothing_is_believed(asking, delivered, looks):
    server, verdict = lost_with(asking, delivered, looks)
    assert server.profile.memory.kind is MemoryKind.UNKNOWN
    assert verdict.reason is not Reason.CHECKPOINT


def test_where_all_has_gone_it_kept_no_checkpoint_to_go_back_to(asking, delivered):
    """Nothing else was in the slot, and it was not seen empty."""
    looks = (BEFORE, looked(122, 0, 1049, evaluated=6040))
    server, _ = lost_with(asking, delivered, looks, reused=0)
    assert server.profile.memory.kind is MemoryKind.CHECKPOINTED


def test_answers_that_come_in_another_order_do_not_change_that_of_the_turns(asking, delivered):
    """Each session has a line of its own."""
    turns = conversation((*LOSES[:3], Usage(1060, 0)))
    turns += conversation(LOSES[:3], session="t")
    server = asked(asking, (), Server(), turns=turns)
    first, second, third = (rest[-1] for name, *rest in server.asked if name == "prove")
    del delivered[:]
    second.callback(None)
    assert delivered == []
    third.callback(None)
    assert order(delivered) == [("t", 3)]
    first.callback(None)
    assert order(delivered)[1:] == [("s", 3), ("s", 4)]


ENDS = {
    "nothing": lambda asking, server: server.last.callback(None),
    "nonsense": lambda asking, server: server.last.callback("a text"),
    "failure": lambda asking, server: server.last.errback(ValueError("kanarienvogel")),
    "settled": lambda asking, server: asking.settle(),
}


@pytest.mark.parametrize("end", ENDS)
def test_however_asking_ends_each_is_delivered_once_and_in_order(asking, delivered, failures, end):
    """With the verdict that needed no answer; nothing is left, and nothing logged."""
    server = asked(asking, LOSES, Server())
    assert len(delivered) == 2
    ENDS[end](asking, server)
    assert order(delivered) == [("s", number) for number in range(1, 5)]
    assert delivered[2].verdict.reason is Reason.UNKNOWN
    assert delivered[2].profile is server.profile
    asking.settle()
    assert len(delivered) == 4
    del server.asked[:]
    gc.collect()
    assert failures == []


def test_the_next_turn_asks_again_after_a_question_that_failed(asking, delivered):
    *before, after = conversation((*LOSES[:3], Usage(1060, 0)))
    server = asked(asking, (), Server(), turns=before)
    server.last.errback(ValueError())
    asking([after])
    assert server.questions == ["started", "prove"] * 2
    server.last.callback(None)
    assert len(delivered) == 4


def test_no_more_wait_than_may(asking, delivered, monkeypatch, failures):
    """The question that has kept them waiting is given up."""
    monkeypatch.setattr(module, "_MOST_PENDING", 3)
    *lines, sixth = conversation((*LOSES, Usage(1080, 1060), Usage(1100, 1080)))
    server = asked(asking, (), Server(), turns=lines)
    assert order(delivered) == [("s", 1), ("s", 2)]
    asking([sixth])
    assert [done.number for done in delivered] == list(range(1, 7))
    assert server.last.called
    del server.asked[:]
    gc.collect()
    assert failures == []


def test_what_still_asks_behind_a_question_that_was_given_up_goes_on_waiting(
    asking, delivered, monkeypatch
):
    monkeypatch.setattr(module, "_MOST_PENDING", 2)
    server = asked(asking, (*LOSES[:3], Usage(1060, 0), Usage(1080, 0)), Server())
    assert order(delivered) == [("s", 1), ("s", 2), ("s", 3)]
    for waiting in [rest[-1] for name, *rest in server.asked if name == "prove"][1:]:
        waiting.callback(None)
    assert order(delivered)[3:] == [("s", 4), ("s", 5)]


# Counters: what an answer does not say is counted by the server's own, once it has ended.

NOT_SAID = Usage(1000), Usage(1020)
ONCE = ["counted"] * 2
HOISTED = Proof(1000, 1020, 0, rewrite=Rewrite.HOISTED)


@pytest.mark.parametrize(
    "case",
    [
        (NOT_SAID, (None, 1000), ONCE, [None, 1000], (Judgement.OK, None)),
        # what cannot be counted is not known: neither a break nor well
        (NOT_SAID, (None, None), ONCE, [None, None], (Judgement.UNKNOWN, None)),
        # a break that only the counters show has a cause like any other, or none
        (
            *(NOT_SAID, (None, 0, HOISTED), [*ONCE, "started", "prove"], [None, 0]),
            (Judgement.BREAK, Reason.TEMPLATE_CHANGED),
        ),
        (
            *(NOT_SAID, (None, 0), [*ONCE, "started", "prove"], [None, 0]),
            (Judgement.BREAK, Reason.UNKNOWN),
        ),
        # what is said of one request is better than what is counted over all
        (LOSES[:2], (), [], [0, 1000], (Judgement.OK, None)),
    ],
    ids=["counted", "not counted", "proved", "not proved", "said"],
)
def test_what_was_counted(asking, delivered, case):
    """Of each: what was said, what is answered, what was asked; then what is known."""
    usages, answers, questions, reused, verdict = case
    server = asked(asking, usages, Server(COUNTS), *answers)
    assert server.questions == questions
    assert all(rest[0] in usages for name, *rest in server.asked if name == "counted")
    asking.settle()
    assert [done.usage.reused for done in delivered] == reused
    assert (delivered[-1].verdict.judgement, delivered[-1].verdict.reason) == verdict


@pytest.mark.parametrize("end", ["nothing", "failure", "settled"])
def test_what_cannot_be_counted_is_not_known(asking, delivered, end):
    server = Server(COUNTS).known_to(asking)
    for each in conversation(NOT_SAID):
        asking([each])
        ENDS[end](asking, server)
    assert [done.usage.reused for done in delivered] == [None, None]
    assert delivered[-1].verdict.judgement is Judgement.UNKNOWN


def test_what_came_between_is_known_of_a_turn_that_was_counted(asking, delivered):
    first, second, third = conversation((*NOT_SAID, Usage(1040)))
    (other,) = conversation((Usage(800),), session="t", wall=second.wall + 30)
    server, answers = Server(replace(COUNTS, memory=Memory(slots=1))), (None, 1000, 0, 0)
    proof = Proof(1020, 1040, 1020)
    asked(asking, (), server, *answers, proof, turns=[first, second, other, third])
    verdict = delivered[-1].verdict
    assert (verdict.reason, verdict.evidence) == (Reason.EVICTED, (Sign.OTHERS,))
    assert server.beliefs.find(TAKEN)


def test_a_turn_that_was_counted_elsewhere_has_moved(asking, delivered):
    first, second = conversation(NOT_SAID)
    asked(asking, (), Server(COUNTS), None, turns=[first])
    elsewhere = "http://elsewhere"
    server = Server(COUNTS, url=elsewhere)
    asked(asking, (), server, 0, turns=[replace(second, upstream=elsewhere)])
    assert delivered[-1].verdict.reason is Reason.MOVED
    assert server.questions == ["counted"]


@pytest.mark.parametrize(
    ("began", "questions", "found"),
    [
        ("second", ["started"], (Reason.EVICTED, Basis.TOLD, (Sign.RESTARTED,))),
        ("first", ["started", "prove"], (Reason.UNKNOWN, None, ())),
        (None, ["started", "prove"], (Reason.UNKNOWN, None, ())),
    ],
)
def test_a_restart_that_is_seen_now_needs_no_proof(asking, delivered, began, questions, found):
    """What the server had is gone, whatever it renders; one that is not told is none."""
    server = asked(asking, LOSES[:3], Server(began=began), None)
    assert server.questions == questions
    verdict = delivered[-1].verdict
    assert (verdict.reason, verdict.basis, verdict.evidence) == found


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
    server = asked(asking, LOSES[:3], Server())
    asking.known = {"http://elsewhere": Server(url="http://elsewhere")}
    server.last.callback(Proof(1020, 1040, 0, rewrite=Rewrite.TOOLS))
    assert delivered[-1].verdict.rewrite is Rewrite.TOOLS
