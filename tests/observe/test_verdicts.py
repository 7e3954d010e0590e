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
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.servers.inferred import Inferred
from cacheproxy.core.servers.profile import Memory, MemoryKind, Profile
from cacheproxy.observe.verdicts import Verdicts
from tests.observe.exchanges import SYSTEM, body, exchange, read, request

TEXTS = ("a " * 2000, "b", "c")
FIRST = Usage(1000, 0, 5, 1.0, 0.1)


SYSTEM_FIRST = Profile(order=PromptOrder.SYSTEM_FIRST)
TOOLS_FIRST = Profile(order=PromptOrder.TOOLS_FIRST)


def judged(known, *turns, profile=SYSTEM_FIRST):
    """The verdicts on ``turns``, and the place of the last."""
    verdicts = []
    for turn in turns:
        known.judge(turn, profile)
        verdicts.append(turn.verdict)
    return verdicts, turn.place


def test_a_first_turn_is_cold_and_an_extension_that_was_reused_is_ok():
    """The server's count decides."""
    (cold, ok), place = judged(
        Verdicts(Store()),
        exchange(body("a"), usage=FIRST),
        exchange(body("a", "b", "c"), usage=Usage(1020, 1000)),
    )
    assert cold.judgement is Judgement.COLD
    assert ok.judgement is Judgement.OK
    assert ok.expected.tokens == 1000
    assert (place.turn, place.is_side) == (2, False)


def test_a_turn_that_agrees_but_was_not_reused_broke_for_an_unknown_reason():
    """The requests are equal, so the change is not why; what else it was, nobody has seen."""
    (_, broken), _ = judged(
        Verdicts(Store()),
        exchange(body("a"), usage=FIRST),
        exchange(body("a", "b", "c"), usage=Usage(1020, 0, 5, 2.0)),
    )
    assert (broken.judgement, broken.reason) == (Judgement.BREAK, Reason.UNKNOWN)
    assert "this request only appends to the one before" in broken.ruled_out
    assert broken.lost.tokens == 1000
    assert broken.seconds_lost == pytest.approx(2.0 * 1000 / 1020)


def conversation(*prompts, session="s", begun=0.0, usages=()):
    """Turns that only add, a minute apart."""
    return [
        exchange(body(*texts), session=session, usage=usage, wall=begun + 60 * number)
        for number, (texts, usage) in enumerate(zip(prompts, usages, strict=True))
    ]


GROWING = ("a",), ("a", "b", "c"), ("a", "b", "c", "d", "e")
LOSES = FIRST, Usage(1020, 1000), Usage(1040, 0)


def test_another_conversation_in_the_only_slot_is_evidence_of_an_eviction():
    """It came in between, and there was but one place."""
    known = Verdicts(Store())
    one, two, three = conversation(*GROWING, usages=LOSES)
    other = exchange(body("else", system="Other."), session="t", usage=Usage(500, 0), wall=90.0)
    profile = Profile(order=PromptOrder.SYSTEM_FIRST, memory=Memory(slots=1))
    (*_, broken), _ = judged(known, one, two, other, three, profile=profile)
    assert (broken.reason, broken.evidence) == (Reason.EVICTED, (Sign.OTHERS,))


def test_a_conversation_that_came_before_or_elsewhere_is_no_evidence():
    """Only what was at this upstream, between the two turns, counts."""
    known = Verdicts(Store())
    one, two, three = conversation(*GROWING, usages=LOSES)
    others = [
        exchange(body("else", system="Other."), session=name, usage=Usage(500, 0), **where)
        for name, where in (
            ("t", {"wall": 10.0}),
            ("u", {"wall": 90.0, "upstream": "http://elsewhere"}),
        )
    ]
    (*_, broken), _ = judged(known, one, others[0], two, others[1], three)
    assert (broken.reason, broken.evidence) == (Reason.UNKNOWN, ())


def test_a_server_that_was_started_anew_has_dropped_all():
    """Its mark is another than in the turn before."""
    known = Verdicts(Store())
    one, two, three = conversation(*GROWING, usages=LOSES)
    judged(known, one, two, profile=replace(SYSTEM_FIRST, start="first"))
    (broken,), _ = judged(known, three, profile=replace(SYSTEM_FIRST, start="second"))
    assert (broken.reason, broken.evidence) == (Reason.EVICTED, (Sign.RESTARTED,))


def test_a_turn_that_goes_to_another_upstream_has_moved():
    """What the one has, the other has not."""
    known = Verdicts(Store())
    one, two, three = conversation(*GROWING, usages=LOSES)
    (*_, broken), _ = judged(known, one, two, replace(three, upstream="http://elsewhere"))
    assert broken.reason is Reason.MOVED


def test_a_count_that_is_left_out_is_zero_once_one_was_reported():
    """SGLang says nothing where it reused nothing."""
    known, inferred = Verdicts(Store()), Inferred()
    one, two, three = conversation(*GROWING, usages=(Usage(1000), Usage(1020, 1000), Usage(1040)))
    found = [known.judge(each, SYSTEM_FIRST, inferred) for each in (one, two, three)]
    assert [each.usage.reused for each in found] == [None, 1000, 0]
    assert three.verdict.judgement is Judgement.BREAK


def test_a_count_that_was_never_reported_is_not_known():
    """It is not called zero, and the turn is not called well."""
    known, inferred = Verdicts(Store()), Inferred()
    one, two, _ = conversation(*GROWING, usages=(Usage(1000), Usage(1020), Usage(1040)))
    found = [known.judge(each, SYSTEM_FIRST, inferred) for each in (one, two)]
    assert found[-1].usage.reused is None
    assert two.verdict.judgement is Judgement.UNKNOWN


def test_an_order_that_nobody_told_is_inferred_and_the_change_named_by_it():
    """The system text changed and the tools were reused: the tools stand first."""
    known, inferred = Verdicts(Store()), Inferred()
    tools = tuple(f"tool_{number}_with_a_long_name" for number in range(80))
    one = exchange(body(*TEXTS, tools=tools), usage=FIRST)
    said = body(*TEXTS, "d", tools=tools, system="Other. " + SYSTEM)
    prompt = prompt_of(request(said))
    share = sum(len(segment.text) for segment in prompt.of(Part.TOOLS)) / prompt.chars
    two = exchange(said, usage=Usage(1010, round(1010 * share)))
    known.judge(one, Profile(), inferred)
    known.judge(two, Profile(), inferred)
    assert two.verdict.reason is Reason.SYSTEM_CHANGED
    assert two.verdict.where.path.startswith("/system")
    assert inferred.order is PromptOrder.TOOLS_FIRST


def test_a_request_that_leaves_the_cache_off_is_not_called_evicted():
    """llama-server's ``cache_prompt``."""
    one, *_ = conversation(*GROWING, usages=LOSES)
    off = exchange(body(*GROWING[1]) | {"cache_prompt": False}, usage=Usage(1020, 0), wall=60.0)
    (_, broken), _ = judged(Verdicts(Store()), one, off)
    assert broken.reason is Reason.NOT_CACHED


def test_whole_blocks_are_no_break():
    """What is behind the last of them cannot be reused."""
    blocks = Profile(
        order=PromptOrder.SYSTEM_FIRST, memory=Memory(kind=MemoryKind.BLOCKS, block=1024)
    )
    one, two, _ = conversation(*GROWING, usages=(Usage(1500, 0), Usage(1520, 1024), FIRST))
    (_, ok), _ = judged(Verdicts(Store()), one, two, profile=blocks)
    assert ok.judgement is Judgement.OK


@pytest.mark.parametrize(
    ("changed", "reused", "reason"),
    [
        (body(*TEXTS, "d", system="Other. " + SYSTEM), 60, Reason.SYSTEM_CHANGED),
        (body(*TEXTS, "d", tools=("read", "edit", "list")), 15, Reason.TOOLS_CHANGED),
        (body("x" + TEXTS[0], *TEXTS[1:], "d"), 500, Reason.MESSAGES_CHANGED),
        (body(*TEXTS, "d", model="n"), 0, Reason.MODEL_CHANGED),
    ],
)
def test_a_break_is_named_after_the_part_that_changed(changed, reused, reason):
    """In the words of the public cache-diagnostics API."""
    (_, broken), _ = judged(
        Verdicts(Store()),
        exchange(body(*TEXTS), usage=FIRST),
        exchange(changed, usage=Usage(1020, reused)),
        profile=TOOLS_FIRST,
    )
    assert (broken.judgement, broken.reason) == (Judgement.BREAK, reason)


def test_what_the_edits_saved_is_told_apart():
    """By the bodies as they came: their heads differ, so nothing would have been reused."""
    (_, ok), _ = judged(
        Verdicts(Store()),
        exchange(body("a"), body("a", system="nonce 1" + SYSTEM), usage=FIRST),
        exchange(
            body("a", "b"), body("a", "b", system="nonce 2" + SYSTEM), usage=Usage(1010, 1000)
        ),
    )
    assert ok.judgement is Judgement.OK
    assert ok.unedited.tokens < 20
    assert ok.saved.tokens > 980
    assert ok.saved.source == "estimated"


def test_without_edits_nothing_was_saved():
    """What the server reuses by itself is not ours."""
    (_, ok), _ = judged(
        Verdicts(Store()),
        exchange(body("a"), usage=FIRST),
        exchange(body("a", "b"), usage=Usage(1010, 1000)),
    )
    assert ok.saved.tokens == 0


def test_a_title_request_between_two_turns_is_a_side_request():
    """The next turn is compared with the turn, not with the title."""
    (_, title, ok), place = judged(
        Verdicts(Store()),
        exchange(body("a"), usage=FIRST),
        exchange(body("Write a title", system="short", tools=()), usage=Usage(30, 0)),
        exchange(body("a", "b", "c"), usage=Usage(1020, 1000)),
    )
    assert title.judgement is Judgement.COLD
    assert ok.judgement is Judgement.OK
    assert place.turn == 2


@pytest.mark.parametrize("session", ["s", "s:memory"])
def test_a_side_request_that_repeats_the_conversation_has_not_begun_elsewhere(session):
    """Neither in its session, nor in one that works for it."""
    side = exchange(
        body("a", "b", "What is worth remembering?", system="short", tools=("save",)),
        session=session,
        usage=Usage(500, 0),
    )
    (_, cold), _ = judged(Verdicts(Store()), exchange(body("a"), usage=FIRST), side)
    assert (cold.judgement, cold.evidence) == (Judgement.COLD, ())
    (alone,), _ = judged(Verdicts(Store()), side)
    assert alone.evidence == (Sign.BEGUN_ELSEWHERE,)


def test_a_turn_that_failed_leaves_the_one_before():
    """It was never evaluated."""
    (_, _, ok), _ = judged(
        Verdicts(Store()),
        exchange(body("a"), usage=FIRST),
        exchange(body("a", "b", "lost")),
        exchange(body("a", "b", "c"), usage=Usage(1020, 1000)),
    )
    assert ok.judgement is Judgement.OK


def test_a_request_without_a_prompt_is_not_judged():
    """Nor one without a session."""
    known = Verdicts(Store())
    assert known.judge(exchange({}), TOOLS_FIRST) is None
    nobodys = replace(exchange(body("a")), session=None)
    assert known.judge(nobodys, TOOLS_FIRST) is None


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
    verdicts, place = judged(Verdicts(Store()), *branches(one, one, two))
    assert [found.judgement for found in verdicts[1:]] == [Judgement.OK] * 3
    assert verdicts[-1].expected.tokens == size(two)
    assert (place.lane, place.turn) == (0, 4)


def test_a_branch_that_took_the_place_of_another_evicted_it():
    one, two, _, _ = FORKED
    profile = Profile(order=PromptOrder.SYSTEM_FIRST, memory=Memory(slots=1))
    verdicts, _ = judged(Verdicts(Store()), *branches(one, one, one), profile=profile)
    assert [found.judgement for found in verdicts[1:3]] == [Judgement.OK] * 2
    found = verdicts[-1]
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.EVICTED)
    assert (found.evidence, found.lost.tokens) == ((Sign.OTHERS,), size(two) - size(one))
