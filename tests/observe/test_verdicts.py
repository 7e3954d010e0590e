"""What is remembered of prompts, and the verdicts that come of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, Sign
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.kinds.profile import Memory, MemoryKind, Profile
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.observe.verdicts import Verdicts
from tests.observe.exchanges import SYSTEM, body, exchange, read, request

TEXTS = ("a " * 2000, "b", "c")
FIRST = Usage(1000, 0, 5, 1.0, 0.1)
AGAIN = Usage(1020, 1000)
SYSTEM_FIRST = Profile(order=PromptOrder.SYSTEM_FIRST)
TOOLS_FIRST = Profile(order=PromptOrder.TOOLS_FIRST)
ONE_SLOT = replace(SYSTEM_FIRST, memory=Memory(slots=1))
BLOCKS = replace(SYSTEM_FIRST, memory=Memory(kind=MemoryKind.BLOCKS, block=1024))
ELSEWHERE = {"upstream": "http://elsewhere"}
BEGUN, OTHERS, RESTARTED = Sign.BEGUN_ELSEWHERE, Sign.OTHERS, Sign.RESTARTED


def said(verdict):
    """A verdict in its words: the judgement, the reason and what shows it."""
    return [verdict.judgement, *([verdict.reason] if verdict.reason else ()), *verdict.evidence]


def judged(*turns, profile=SYSTEM_FIRST, known=None):
    """The turns, each with its verdict."""
    known, turns = known or Verdicts(Store()), [replace(turn) for turn in turns]
    for turn in turns:
        known.judge(turn, profile)
    return turns


def conversation(*prompts, session="s", usages=()):
    """Turns that only add, a minute apart."""
    return [
        exchange(body(*texts), session=session, usage=usage, wall=60.0 * number)
        for number, (texts, usage) in enumerate(zip(prompts, usages, strict=True))
    ]


GROWING = ("a",), ("a", "b", "c"), ("a", "b", "c", "d", "e")
ONE, TWO, LOSES = conversation(*GROWING, usages=(FIRST, AGAIN, Usage(1040, 0)))
OFF = exchange(body(*GROWING[1]) | {"cache_prompt": False}, usage=Usage(1020, 0), wall=60.0)
EARLY, LATE = (
    exchange(body("else", system="Other."), session="t", usage=Usage(500, 0), wall=wall)
    for wall in (10.0, 90.0)
)
TITLE = exchange(body("Write a title", system="short", tools=()), usage=Usage(30, 0))
FAILED = exchange(body("a", "b", "lost"))
LONG = exchange(body(*TEXTS), usage=FIRST)
FULL_BLOCK = [replace(ONE, usage=Usage(1500, 0)), replace(TWO, usage=Usage(1520, 1024))]
CHANGED = {
    Reason.SYSTEM_CHANGED: (body(*TEXTS, "d", system="Other. " + SYSTEM), 60),
    Reason.TOOLS_CHANGED: (body(*TEXTS, "d", tools=("read", "edit", "list")), 15),
    Reason.MESSAGES_CHANGED: (body("x" + TEXTS[0], *TEXTS[1:], "d"), 500),
    Reason.MODEL_CHANGED: (body(*TEXTS, "d", model="n"), 0),
}
SIDES = [
    exchange(
        body("a", "b", "What is worth remembering?", system="short", tools=("save",)),
        session=session,
        usage=Usage(500, 0),
    )
    for session in ("s", "s:memory")
]


@pytest.mark.parametrize(
    ("turns", "profile", "last"),
    [
        pytest.param([ONE], SYSTEM_FIRST, ["cold"], id="a first turn"),
        pytest.param([ONE, TWO], SYSTEM_FIRST, ["ok"], id="an extension that was reused"),
        pytest.param([ONE, TWO, LOSES], SYSTEM_FIRST, ["BREAK", "unknown"], id="nothing seen"),
        # only what was at this upstream, between the two turns, is evidence
        pytest.param(
            [ONE, TWO, LATE, LOSES], ONE_SLOT, ["BREAK", "evicted", OTHERS], id="one slot, taken"
        ),
        pytest.param(
            [ONE, EARLY, TWO, replace(LATE, **ELSEWHERE), LOSES],
            SYSTEM_FIRST,
            ["BREAK", "unknown"],
            id="others before or elsewhere",
        ),
        pytest.param(
            [ONE, TWO, replace(LOSES, **ELSEWHERE)], SYSTEM_FIRST, ["BREAK", "moved"], id="moved"
        ),
        pytest.param(
            [ONE, OFF],
            SYSTEM_FIRST,
            ["BREAK", "not_cached", Sign.NOT_WANTED],
            id="cache_prompt off",
        ),
        pytest.param(FULL_BLOCK, BLOCKS, ["ok"], id="whole blocks"),
        *(
            pytest.param(
                [LONG, exchange(sent, usage=Usage(1020, reused))],
                TOOLS_FIRST,
                ["BREAK", reason],
                id=reason,
            )
            for reason, (sent, reused) in CHANGED.items()
        ),
        # the next turn is compared with the turn, not with a title, nor with one that failed
        pytest.param([ONE, TITLE], SYSTEM_FIRST, ["cold"], id="a title"),
        pytest.param([ONE, TITLE, TWO], SYSTEM_FIRST, ["ok"], id="behind a title"),
        pytest.param([ONE, FAILED, TWO], SYSTEM_FIRST, ["ok"], id="behind one that failed"),
        # a side request that repeats the conversation has not begun elsewhere
        *(pytest.param([ONE, side], SYSTEM_FIRST, ["cold"], id=side.session.id) for side in SIDES),
        pytest.param(SIDES[:1], SYSTEM_FIRST, ["cold", BEGUN], id="one that is alone"),
    ],
)
def test_the_last_turns_verdict(turns, profile, last):
    assert said(judged(*turns, profile=profile)[-1].verdict) == last


def test_turns_are_counted_without_what_is_beside_them():
    *_, title, two = judged(ONE, TITLE, TWO)
    assert title.place.is_side
    assert (two.place.turn, two.place.is_side) == (2, False)


def test_a_loss_has_its_price():
    *_, broken = judged(ONE, replace(TWO, usage=Usage(1020, 0, 5, 2.0)))
    assert broken.verdict.lost.tokens == 1000
    assert broken.verdict.seconds_lost == pytest.approx(2.0 * 1000 / 1020)


def test_a_server_that_was_started_anew_has_dropped_all():
    """Its mark is another than in the turn before."""
    known = Verdicts(Store())
    judged(ONE, TWO, profile=replace(SYSTEM_FIRST, start="first"), known=known)
    (broken,) = judged(LOSES, profile=replace(SYSTEM_FIRST, start="second"), known=known)
    assert said(broken.verdict) == ["BREAK", "evicted", RESTARTED]


@pytest.mark.parametrize(
    ("reused", "known", "last"),
    [
        ([None, 1000, None], [None, 1000, 0], "BREAK"),  # SGLang says nothing of nothing
        ([None, None, None], [None, None, None], Judgement.UNKNOWN),
    ],
)
def test_a_count_that_is_left_out_is_zero_once_one_was_reported(reused, known, last):
    """Else it is not known, and the turn is not called well."""
    verdicts, beliefs = Verdicts(Store()), Beliefs()
    counts = zip((1000, 1020, 1040), reused, strict=True)
    turns = conversation(*GROWING, usages=[Usage(*count) for count in counts])
    found = [verdicts.judge(each, SYSTEM_FIRST, beliefs) for each in turns]
    assert [each.usage.reused for each in found] == known
    assert turns[-1].verdict.judgement == last


def test_an_order_that_nobody_told_is_inferred_and_the_change_named_by_it():
    """The system text changed and the tools were reused: the tools stand first."""
    known, beliefs = Verdicts(Store()), Beliefs()
    tools = tuple(f"tool_{number}_with_a_long_name" for number in range(80))
    one = exchange(body(*TEXTS, tools=tools), usage=FIRST)
    sent = body(*TEXTS, "d", tools=tools, system="Other. " + SYSTEM)
    prompt = prompt_of(request(sent))
    share = sum(len(segment.text) for segment in prompt.of(Part.TOOLS)) / prompt.chars
    two = exchange(sent, usage=Usage(1010, round(1010 * share)))
    known.judge(one, Profile(), beliefs)
    known.judge(two, Profile(), beliefs)
    assert two.verdict.reason is Reason.SYSTEM_CHANGED
    assert two.verdict.where.path.startswith("/system")
    assert beliefs.profile.order is PromptOrder.TOOLS_FIRST


@pytest.mark.parametrize(("nonce", "least", "most"), [("nonce {}", 980, 1000), ("", 0, 0)])
def test_what_the_edits_saved_is_told_apart(nonce, least, most):
    """By the bodies as they came: where their heads differ, nothing would have been reused."""
    _, ok = judged(
        *(
            exchange(body(*texts), body(*texts, system=nonce.format(at) + SYSTEM), usage=usage)
            for at, (texts, usage) in enumerate(zip(GROWING, (FIRST, AGAIN), strict=False))
        )
    )
    assert ok.verdict.judgement is Judgement.OK
    assert least <= ok.verdict.saved.tokens <= most
    assert ok.verdict.saved.source == "estimated"


def test_a_request_without_a_prompt_is_not_judged():
    known = Verdicts(Store())
    assert known.judge(exchange({}), TOOLS_FIRST) is None
    assert known.judge(replace(exchange(body("a")), session=None), TOOLS_FIRST) is None


def steps_of(work) -> int:
    """How many bytecodes ``work`` takes: what C does for them is as good as free."""
    count = 0

    def see(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def nonced(texts, nonce, memo):
    """A conversation whose system text begins with a nonce."""
    blocks = [{"type": "text", "text": nonce}, {"type": "text", "text": SYSTEM}]
    return replace(request(body(*texts, system=blocks)), memo=memo)


@pytest.mark.parametrize("volatile", [True, False])
def test_a_turn_takes_as_many_steps_however_long_the_conversation_is(volatile):
    """Nor for the edits: the prompt as it came is put together of the one that was sent.

    Even where what is edited says the same again, but is another object.
    """
    steps = {}
    for length in (10, 400):
        known, memo = Verdicts(Store()), Memo()
        texts = [f"text {number}" for number in range(length)]
        for turn in range(4):
            came = nonced(texts, f"nonce {turn if volatile else 1}", memo)
            sent = nonced(texts, "nonce", memo)
            made = read(replace(exchange({}, usage=FIRST), received=came, sent=sent))
            steps[length] = steps_of(partial(known.judge, made, TOOLS_FIRST))
            texts += ["more", "and more"]
    assert steps[400] < steps[10] + 50


MINE, YOURS = (" ".join(f"{word}{number}" for number in range(600)) for word in ("mine", "yours"))
FORKED = ("a",), ("a", "b", YOURS), ("a", "c", MINE), ("a", "b", YOURS, "d", "e")


def size(texts):
    return prompt_of(request(body(*texts))).chars


def branches(*reused):
    """A conversation that was forked behind its first answer; what was ``reused`` each time."""
    usages = [Usage(size(texts), size(had)) for texts, had in zip(FORKED[1:], reused, strict=True)]
    return conversation(*FORKED, usages=[Usage(size(FORKED[0]), 0), *usages])


def test_each_branch_is_compared_with_its_own_turn_before():
    """As long as the server has both, nothing is lost, and no change is anybody's fault."""
    one, two, _, _ = FORKED
    turns = judged(*branches(one, one, two))
    assert [turn.verdict.judgement for turn in turns[1:]] == [Judgement.OK] * 3
    assert turns[-1].verdict.expected.tokens == size(two)
    assert (turns[-1].place.lane, turns[-1].place.turn) == (0, 4)


def test_a_branch_that_took_the_place_of_another_evicted_it():
    one, two, _, _ = FORKED
    turns = judged(*branches(one, one, one), profile=ONE_SLOT)
    assert [turn.verdict.judgement for turn in turns[1:3]] == [Judgement.OK] * 2
    assert said(turns[-1].verdict) == ["BREAK", "evicted", OTHERS]
    assert turns[-1].verdict.lost.tokens == size(two) - size(one)
