"""Whether a turn reused the one before, why not, and what it cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.difference import Kind
from cacheproxy.core.judge import Before, judge, parted_at, tokens_of
from cacheproxy.core.prefix import parting
from cacheproxy.core.prompt import prompt_of
from cacheproxy.core.usage import Usage
from cacheproxy.core.verdict import Count, Judgement, Reason, Verdict

from .planting import anthropic, chat, numbered, plant, request
from .test_volatile import set_system


def prompts(bodies):
    return [prompt_of(request(body)) for body in bodies]


FIRST, SECOND = prompts(chat(2))
TOKENS = 1000
GROWN = 1100


def before(prompt=FIRST, unedited=None, tokens=TOKENS):
    return Before(prompt, unedited or prompt, tokens)


def verdict(reused, *, sent=SECOND, unedited=None, known=None, prompt=GROWN, seconds=None):
    usage = Usage(prompt, reused, 10, seconds)
    return judge(known or before(), sent, unedited or sent, usage, first=False)


def shared(one, two):
    """What a server would reuse."""
    return round(parting(one, two).shared * GROWN / two.chars)


def changed(change):
    return prompts(plant(chat(2), change))


def with_nonce(body, turn):
    set_system(body, lambda text: f"id: {numbered('nonce', turn)}\n{text}")


def test_the_first_turn_is_cold():
    assert judge(None, FIRST, FIRST, Usage(TOKENS, 0), first=True) == Verdict(Judgement.COLD)


@pytest.mark.parametrize("reused", [TOKENS, TOKENS - 32, TOKENS - 50])
def test_what_is_reused_but_for_a_batch_is_ok(reused):
    found = verdict(reused)
    assert (found.judgement, found.reason, found.where) == (Judgement.OK, None, None)
    assert found.expected == Count(TOKENS, "measured")


def test_equal_prompts_that_were_not_reused_were_evicted():
    found = verdict(30)
    assert (found.judgement, found.reason, found.where) == (Judgement.BREAK, Reason.EVICTED, None)
    assert found.lost == Count(TOKENS - 30, "measured")


def test_a_change_is_named_placed_and_priced():
    one, two = changed(with_nonce)
    reused = shared(one, two)
    found = verdict(reused, sent=two, known=before(one), seconds=11.0)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.SYSTEM_CHANGED)
    assert found.where.kind is Kind.NONCE
    assert found.where.path == "/messages/0/content"
    assert found.where.byte == len("id: ")
    assert numbered("nonce", 0) in found.where.was
    assert numbered("nonce", 1) in found.where.now
    assert found.lost == Count(TOKENS - reused, "measured")
    assert found.seconds_lost == pytest.approx(11.0 * (TOKENS - reused) / (GROWN - reused))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body, turn: body["tools"][0].update(n=turn), Reason.TOOLS_CHANGED),
        (lambda body, turn: turn and body["tools"].pop(), Reason.TOOLS_CHANGED),
        (with_nonce, Reason.SYSTEM_CHANGED),
        (
            lambda body, turn: body["messages"][1].update(content=f"{turn}" * 800),
            Reason.MESSAGES_CHANGED,
        ),
        (lambda body, turn: body.update(model=f"m{turn}"), Reason.MODEL_CHANGED),
    ],
)
def test_reasons(change, reason):
    one, two = changed(change)
    reused = 0 if reason is Reason.MODEL_CHANGED else shared(one, two)
    found = verdict(reused, sent=two, known=before(one))
    assert (found.judgement, found.reason) == (Judgement.BREAK, reason)


@pytest.mark.parametrize("reused", [None, "what they share"])
def test_a_history_that_the_client_wrote_anew_is_no_break(reused):
    """Nothing is lost: there is nothing more that could have been reused."""
    one, two = summarised()
    usage = Usage(GROWN // 2, shared(one, two) if reused else None)
    found = judge(before(one), two, two, usage, first=False, replaced=True)
    assert (found.judgement, found.reason, found.where) == (Judgement.COMPACTED, None, None)
    assert (found.lost, found.seconds_lost) == (None, None)
    assert 0 < found.expected.tokens < GROWN // 2
    assert judge(None, two, two, usage, first=False, replaced=True).judgement == "compacted"


def test_a_compaction_that_found_not_even_its_head_was_evicted():
    """The tools and the system text are equal: the server had dropped them."""
    one, two = summarised()
    found = judge(before(one), two, two, Usage(GROWN // 2, 0), first=False, replaced=True)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.EVICTED)


def test_a_compaction_with_another_system_text_broke_there():
    one, two = changed(with_nonce)
    usage = Usage(GROWN, shared(one, two))
    found = judge(before(one), two, two, usage, first=False, replaced=True)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.SYSTEM_CHANGED)


def summarised():
    """The prompts of a conversation's turn, and of the one after its compaction."""
    *_, one = chat(5)
    two = {**one, "messages": [one["messages"][0], {"role": "user", "content": "In short."}]}
    return prompts([one, two])


def test_a_change_of_model_blames_no_text():
    one, two = changed(lambda body, turn: body.update(model=f"m{turn}"))
    found = verdict(0, sent=two, known=before(one))
    assert found.where is None
    assert found.expected == Count(0, "estimated")


def test_less_reused_than_the_prompts_share_is_an_eviction_though_they_differ():
    one, two = changed(lambda body, turn: body["messages"][-1].update(content=f"{turn}" * 800))
    assert shared(one, two) > 400
    assert verdict(10, sent=two, known=before(one)).reason is Reason.EVICTED


def test_a_server_that_does_not_say_is_judged_by_comparison():
    one, two = changed(with_nonce)
    found = judge(before(one), two, two, Usage(), first=False)
    assert found.judgement is Judgement.BREAK
    assert found.lost.source == "estimated"
    assert judge(before(), SECOND, SECOND, Usage(), first=False).judgement is Judgement.OK


def test_without_any_count_nothing_is_said():
    found = judge(before(tokens=None), SECOND, SECOND, Usage(), first=False)
    assert found.judgement is Judgement.UNKNOWN


@pytest.mark.parametrize(
    ("usage", "judgement", "reason"),
    [
        (Usage(), Judgement.UNKNOWN, None),
        (Usage(1000, 900), Judgement.OK, None),
        (Usage(1000, 10), Judgement.BREAK, Reason.PREVIOUS_NOT_FOUND),
    ],
)
def test_a_turn_whose_predecessor_is_forgotten(usage, judgement, reason):
    found = judge(None, SECOND, SECOND, usage, first=False)
    assert (found.judgement, found.reason) == (judgement, reason)


def test_a_shorter_prompt_cannot_reuse_more_than_it_has():
    """A turn taken back is no break."""
    found = verdict(890, sent=FIRST, known=before(SECOND), prompt=900)
    assert found.judgement is Judgement.OK


def test_what_the_edits_saved_is_told_from_what_would_have_been_reused():
    one, two = changed(with_nonce)
    found = verdict(990, unedited=two, known=before(FIRST, one))
    assert found.judgement is Judgement.OK
    assert found.unedited.tokens < TOKENS
    assert found.saved == Count(990 - found.unedited.tokens, "estimated")
    assert verdict(990).saved == Count(0, "estimated")


def test_where_prompts_part_is_said_though_it_is_no_break():
    last = anthropic(2)[1]
    one, two = prompts([last, {**last, "messages": [*last["messages"][:-1], {"role": "user"}]}])
    assert verdict(990, sent=two, known=before(one)).where is None
    assert parted_at(before(one), two, Usage()).path.startswith("/messages/")
    assert parted_at(before(), SECOND, Usage()) is None


@given(
    reused=st.one_of(st.none(), st.integers(0, 3000)),
    prompt=st.one_of(st.none(), st.integers(0, 3000)),
    tokens=st.one_of(st.none(), st.integers(0, 3000)),
    change=st.booleans(),
)
def test_figures_are_never_negative(reused, prompt, tokens, change):
    one, two = changed(with_nonce) if change else (FIRST, SECOND)
    found = judge(
        Before(one, FIRST, tokens), two, SECOND, Usage(prompt, reused, 1, 2.0), first=False
    )
    for count in (found.expected, found.lost, found.unedited, found.saved):
        assert count is None or count.tokens >= 0
    assert found.seconds_lost is None or 0 <= found.seconds_lost <= 2.0


def test_tokens_are_counted_in_proportion_or_guessed():
    assert tokens_of(FIRST.chars // 2, FIRST, 1000).tokens == pytest.approx(500, abs=1)
    assert tokens_of(400, FIRST, None) == Count(100, "estimated")
