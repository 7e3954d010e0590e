"""What is remembered of prompts, and the verdicts that come of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Reason, Sign
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.kinds.profile import Memory, MemoryKind, Profile
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.observe.verdicts import Verdicts
from tests import transcript
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


def test_all_that_is_said():
    transcript.holds("verdicts.txt", globals())
