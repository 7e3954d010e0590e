"""Whether a turn reused the one before, why not, and what it cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Basis,
    Judgement,
    Reason,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.evidence import Before, Evidence, Meanwhile
from cacheproxy.core.judge.judge import describe_change, excerpt, located, order_of, parted_at
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of, reordered
from cacheproxy.core.servers.profile import Memory, Profile
from cacheproxy.core.servers.profile import MemoryKind as Memories
from tests.core.diagnose.test_volatile import set_system
from tests.core.judging import (
    FIRST,
    GROWN,
    SECOND,
    TOKENS,
    before,
    changed,
    judged,
    prompts,
    shared,
    summarised,
    verdict,
    with_history,
    with_nonce,
    with_tool,
)
from tests.core.planting import anthropic, chat, numbered, plant, request

_BEGUN = Verdict(Judgement.COLD, evidence=(Sign.BEGUN_ELSEWHERE,))


@pytest.mark.parametrize(
    ("prompt", "usage", "verdict"),
    [
        (FIRST, Usage(TOKENS, 0), Verdict(Judgement.COLD)),
        (SECOND, Usage(GROWN, 700), Verdict(Judgement.OK)),
        (SECOND, Usage(GROWN, 400), _BEGUN),
        (SECOND, Usage(), _BEGUN),
        (FIRST, Usage(TOKENS, 400), Verdict(Judgement.COLD)),
        (FIRST, Usage(TOKENS, 900), Verdict(Judgement.OK)),
    ],
)
def test_the_first_turn_that_we_see_is_cold_only_where_the_server_had_little(
    prompt, usage, verdict
):
    """It may have begun elsewhere, or share its head with others."""
    assert judged(None, prompt, usage, is_first=True) == verdict


def test_a_side_request_of_a_conversation_that_we_know_began_here():
    """It repeats what was said, so it has answers in it."""
    found = judged(None, SECOND, Usage(GROWN, 0), is_first=True, is_known=True)
    assert found == Verdict(Judgement.COLD)


@pytest.mark.parametrize("reused", [TOKENS, TOKENS - 32, TOKENS - 50])
def test_what_is_reused_but_for_a_batch_is_ok(reused):
    found = verdict(reused)
    assert (found.judgement, found.reason, found.where) == (Judgement.OK, None, None)
    assert found.expected == TokenCount(TOKENS, "measured")
    assert found.lost == TokenCount(TOKENS - reused, "measured")


@pytest.mark.parametrize(
    ("memory", "judgement"),
    [
        (Memory(), Judgement.BREAK),
        (Memory(Memories.BLOCKS, block=16), Judgement.BREAK),
        (Memory(Memories.BLOCKS, block=512), Judgement.OK),
        (Memory(Memories.BLOCKS, block=256), Judgement.BREAK),
        (Memory(Memories.BLOCKS, block=256, is_hybrid=True), Judgement.OK),
        (Memory(Memories.CHECKPOINTED), Judgement.OK),
    ],
)
def test_a_server_is_judged_by_what_its_memory_can_do(memory, judgement):
    """488 of 1,000 tokens are missing: less than a block, two blocks, or the last checkpoint."""
    assert verdict(512, profile=Profile(memory=memory)).judgement is judgement


def test_less_reused_than_the_requests_share_is_a_break_that_nobody_can_explain_yet():
    found = verdict(30)
    assert (found.judgement, found.reason, found.where) == (Judgement.BREAK, Reason.UNKNOWN, None)
    assert (found.basis, found.evidence) == (None, ())
    assert found.ruled_out == ("this request only appends to the one before",)
    assert found.lost == TokenCount(TOKENS - 30, "measured")
    assert found.expected == TokenCount(TOKENS, "measured")


def test_a_change_is_named_placed_and_priced():
    one, two = changed(with_nonce)
    reused = shared(one, two)
    found = verdict(reused, sent=two, known=before(one), seconds=11.0)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.SYSTEM_CHANGED)
    assert found.basis is Basis.COUNTED
    assert found.where.kind is ChangeKind.NONCE
    assert found.where.path == "/messages/0/content"
    assert found.where.byte == len("id: ")
    assert numbered("nonce", 0) in found.where.was
    assert numbered("nonce", 1) in found.where.now
    assert found.lost == TokenCount(TOKENS - reused, "measured")
    assert found.seconds_lost == pytest.approx(11.0 * (TOKENS - reused) / (GROWN - reused))


def tail(*texts):
    """A prompt that ends with these texts, by turns the user's and the model's."""
    (body,) = chat(1)
    body["messages"] += [
        {"role": ("assistant", "user")[at % 2], "content": text} for at, text in enumerate(texts)
    ]
    return prompts([body])[0]


LONG = " ".join(f"word{number}" for number in range(400))
OTHER = " ".join(f"other{number}" for number in range(400))


@pytest.mark.parametrize(
    ("was", "now", "evaluated", "lost"),
    [
        (("a", "b", LONG, "d"), ("a", "e"), 20, 0),  # a rewind
        (("a", LONG), ("a", OTHER), 500, 0),  # the last prompt in other words
        (("a", f"Monday {LONG} Monday"), ("a", f"Friday {LONG} Friday"), 600, 500),  # a clock
        (("a", LONG), ("a", OTHER, "c", "d"), 600, 0),  # it was answered, and rewritten since
        (
            ("a", "b", "c", LONG, "d"),
            ("a", "e", "c", LONG, "d", "f"),
            600,
            480,
        ),  # what is behind it
        (("a", "b"), ("a", "b", "c", LONG), 900, 0),  # it grew, and all was there
    ],
)
def test_a_loss_is_what_was_evaluated_again(was, now, evaluated, lost):
    """Never more than was evaluated, nor what its client took back or said in other words."""
    one, two = tail(*was), tail(*now)
    left = parting(one, two)
    tokens = one.chars // 4
    reused = tokens if left.was is None else left.shared // 4
    found = verdict(reused, sent=two, known=before(one, tokens=tokens), prompt=reused + evaluated)
    assert (found.judgement is Judgement.BREAK) == bool(lost)
    assert lost <= found.lost.tokens <= evaluated


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body, turn: turn and body["tools"].pop(), Reason.TOOLS_CHANGED),
        (with_history, Reason.MESSAGES_CHANGED),
    ],
)
def test_reasons(change, reason):
    one, two = changed(change)
    found = verdict(shared(one, two), sent=two, known=before(one))
    assert (found.judgement, found.reason) == (Judgement.BREAK, reason)
    assert found.basis is Basis.COUNTED


def in_order(order, change):
    """Two prompts in the order that we assume, and what a server of another ``order`` reuses."""
    one, two = changed(change)
    return one, two, shared(*(reordered(prompt, order) for prompt in (one, two)))


@pytest.mark.parametrize(
    ("order", "change", "reason"),
    [
        (PromptOrder.SYSTEM_FIRST, with_nonce, Reason.SYSTEM_CHANGED),
        (PromptOrder.SYSTEM_FIRST, with_tool, Reason.TOOLS_CHANGED),
        (PromptOrder.TOOLS_FIRST, with_nonce, Reason.SYSTEM_CHANGED),
        (PromptOrder.TOOLS_FIRST, with_tool, Reason.TOOLS_CHANGED),
    ],
)
def test_where_the_order_is_not_known_the_one_that_predicts_what_was_reused_is_taken(
    order, change, reason
):
    one, two, reused = in_order(order, change)
    found = verdict(reused, sent=two, known=before(one))
    assert (found.reason, found.expected.tokens) == (reason, reused)
    assert order_of(Evidence(before(one), two, two, Usage(GROWN, reused))) is order


def test_an_order_that_is_known_is_not_guessed():
    one, two, reused = in_order(PromptOrder.SYSTEM_FIRST, with_nonce)
    found = verdict(
        reused, sent=two, known=before(one), profile=Profile(order=PromptOrder.TOOLS_FIRST)
    )
    assert found.reason is not Reason.SYSTEM_CHANGED
    found = verdict(
        reused, sent=two, known=before(one), profile=Profile(order=PromptOrder.SYSTEM_FIRST)
    )
    assert found.reason is Reason.SYSTEM_CHANGED


@pytest.mark.parametrize("usage", [Usage(), Usage(GROWN, None), Usage(GROWN, 300)])
def test_counts_that_fit_no_order_or_both_show_none(usage):
    one, two = changed(with_nonce)
    assert order_of(Evidence(before(one), two, two, usage)) is None
    assert order_of(Evidence(before(), SECOND, SECOND, Usage(GROWN, TOKENS))) is None


@pytest.mark.parametrize("reused", [None, "what they share"])
def test_a_history_that_the_client_wrote_anew_is_no_break(reused):
    """Nothing is lost: there is nothing more that could have been reused."""
    one, two = summarised()
    usage = Usage(GROWN // 2, shared(one, two) if reused else None)
    found = judged(before(one), two, usage, is_replaced=True)
    assert (found.judgement, found.reason, found.where) == (Judgement.COMPACTED, None, None)
    assert (found.lost, found.seconds_lost) == (None, None)
    assert 0 < found.expected.tokens < GROWN // 2
    assert judged(None, two, usage, is_replaced=True).judgement == "compacted"


def test_a_compaction_that_found_not_even_its_head_is_a_break():
    """The tools and the system text are equal."""
    one, two = summarised()
    usage = Usage(GROWN // 2, 0)
    found = judged(before(one), two, usage, is_replaced=True)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.UNKNOWN)
    seen = Meanwhile(emptied=True)
    found = judged(before(one), two, usage, meanwhile=seen, is_replaced=True)
    assert (found.reason, found.evidence) == (Reason.EVICTED, (Sign.SLOTS,))


def test_a_compaction_with_another_system_text_broke_there():
    one, two = changed(with_nonce)
    usage = Usage(GROWN, shared(one, two))
    found = judged(before(one), two, usage, is_replaced=True)
    assert (found.judgement, found.reason) == (Judgement.BREAK, Reason.SYSTEM_CHANGED)


@pytest.mark.parametrize("reused", [0, None])
def test_a_change_of_model_blames_no_text(reused):
    """Though one has changed, too."""
    one, two = changed(lambda body, turn: [with_history(body, turn), body.update(model=f"m{turn}")])
    found = verdict(reused, sent=two, known=before(one))
    assert (found.reason, found.where) == (Reason.MODEL_CHANGED, None)
    assert found.expected == TokenCount(0, "estimated")


@pytest.mark.parametrize(
    ("usage", "judgement", "reason"),
    [
        (Usage(), Judgement.UNKNOWN, None),
        (Usage(1000, 900), Judgement.OK, None),
        (Usage(1000, 10), Judgement.BREAK, Reason.PREVIOUS_NOT_FOUND),
    ],
)
def test_a_turn_whose_predecessor_is_forgotten(usage, judgement, reason):
    found = judged(None, SECOND, usage)
    assert (found.judgement, found.reason) == (judgement, reason)


def test_what_the_edits_saved_is_told_from_what_would_have_been_reused():
    one, two = changed(with_nonce)
    found = verdict(990, unedited=two, known=before(FIRST, one))
    assert found.judgement is Judgement.OK
    assert found.unedited.tokens < TOKENS
    assert found.saved == TokenCount(990 - found.unedited.tokens, "estimated")
    assert verdict(990).saved == TokenCount(0, "estimated")


@given(
    reused=st.one_of(st.none(), st.integers(0, 3000)),
    prompt=st.one_of(st.none(), st.integers(0, 3000)),
    tokens=st.one_of(st.none(), st.integers(0, 3000)),
    change=st.booleans(),
    memory=st.sampled_from(Memories),
)
def test_figures_are_never_negative(reused, prompt, tokens, change, memory):
    one, two = changed(with_nonce) if change else (FIRST, SECOND)
    found = judged(
        Before(one, FIRST, tokens),
        two,
        Usage(prompt, reused, 1, 2.0),
        unedited=SECOND,
        profile=Profile(memory=Memory(memory)),
    )
    for count in (found.expected, found.lost, found.unedited, found.saved):
        assert count is None or count.tokens >= 0
    assert found.seconds_lost is None or 0 <= found.seconds_lost <= 2.0
    assert found.reason is not Reason.EVICTED


def planted(change, bodies=None):
    return [prompt_of(request(body)) for body in plant(bodies or anthropic(2), change)]


def with_text(text):
    """A change of the system text, by ``text``, another in each turn."""
    return lambda body, turn: set_system(body, lambda system: f"{text(turn)}\n{system}")


def respell(tools):
    """Another order of the members, the same tool."""
    tools[0] = dict(reversed(tools[0].items()))


def rename(tools):
    """Another tool."""
    tools[0]["name"] = "zz"


SAME = planted(lambda body, turn: None)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (with_text(lambda turn: numbered("nonce", turn)), ChangeKind.NONCE),
        (with_text(lambda turn: numbered("date", turn)), ChangeKind.DATE),
        (with_text(lambda turn: numbered("clock", turn)), ChangeKind.CLOCK),
        (with_text(lambda turn: numbered("uuid", turn)), ChangeKind.UUID),
        (with_text(lambda turn: ("one", "two")[turn]), ChangeKind.TEXT),
        (lambda body, turn: turn and body["tools"].pop(), ChangeKind.REMOVED),
        (lambda body, turn: turn or body["tools"].pop(), ChangeKind.ADDED),
        (lambda body, turn: turn and body["tools"].reverse(), ChangeKind.REORDERED),
        (lambda body, turn: turn and respell(body["tools"]), ChangeKind.REORDERED),
        (lambda body, turn: turn and rename(body["tools"]), ChangeKind.TEXT),
        (lambda body, turn: turn and body["messages"][0]["content"].clear(), ChangeKind.MOVED),
        (lambda body, turn: turn and body["messages"].clear(), ChangeKind.REMOVED),
        (lambda body, turn: None, ChangeKind.ADDED),
    ],
)
def test_a_change_is_described_by_its_shape(change, kind):
    one, two = planted(change)
    assert describe_change(parting(one, two), one, two) is kind


def test_a_place_is_given_in_bytes_and_in_tokens():
    one, two = planted(with_text(lambda turn: f"é🜁\ud83d: {numbered('nonce', turn)}"), chat(2))
    left = parting(one, two)
    found = located(left, one, two, 1000)
    assert (found.path, found.kind) == ("/messages/0/content", ChangeKind.NONCE)
    assert found.byte == len("é🜁".encode()) + 3 + len(": ")
    assert found.position == TokenCount(round(left.shared * 1000 / two.chars), "estimated")
    assert located(left, one, two, None).position == TokenCount(round(left.shared / 4), "estimated")
    assert numbered("nonce", 0) in found.was
    assert numbered("nonce", 1) in found.now
    one, two = planted(lambda body, turn: turn and body["messages"].clear())
    gone = located(parting(one, two), one, two, 1000)
    assert (gone.byte, gone.now, bool(gone.was)) == (0, "", True)
    assert gone.path.startswith("/messages/0")


QUESTION = "What of this is worth remembering? Answer in two lines."
ANSWER = {"role": "assistant", "content": "Done."}


def asked(*texts):
    """A chat in which the user said ``texts``, and was answered all but the last."""
    said = [{"role": "user", "content": text} for text in texts]
    return {"messages": [each for one in said for each in (one, ANSWER)][:-1]}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        # A question that is asked anew at the end of each request, and not kept.
        (("one", QUESTION), ("one", "and two", QUESTION), ChangeKind.MOVED),
        (("one", QUESTION), ("one", "and two", f"{QUESTION} Again."), ChangeKind.MOVED),
        # A reminder behind the user's newest text alone.
        ((f"one {QUESTION}",), ("one", f"two {QUESTION}"), ChangeKind.MOVED),
        # The last message itself was changed, or taken back.
        (("one", QUESTION), ("one", "and two"), ChangeKind.TEXT),
        (("one", QUESTION), ("one", "and two", "and three"), ChangeKind.TEXT),
        (("one", f"At 10:00: {QUESTION}"), ("one", f"At 10:05: {QUESTION}"), ChangeKind.CLOCK),
        (
            ("one", f"At 10:00: {QUESTION}"),
            ("one", f"At 10:05: {QUESTION}", f"At 10:05: {QUESTION}"),
            ChangeKind.CLOCK,
        ),
        # Not the last one.
        (("one", QUESTION, "two"), ("one", "two", QUESTION), ChangeKind.TEXT),
    ],
)
def test_a_last_message_that_stays_last_has_moved(before, after, kind):
    one, two = (prompt_of(request(asked(*texts))) for texts in (before, after))
    assert describe_change(parting(one, two), one, two) is kind


def test_where_prompts_part_is_said_though_it_is_no_break():
    last = anthropic(2)[1]
    short = {**last, "messages": [*last["messages"][:-1], {"role": "user"}]}
    one, two = (prompt_of(request(body)) for body in (last, short))
    assert parted_at(one, two, None).path.startswith("/messages/")
    assert parted_at(*SAME, None) is None


@pytest.mark.parametrize("at", [0, 5, 500, 1000])
def test_an_excerpt_is_short_and_holds_the_place(at):
    text = "".join(chr(0x100 + number) for number in range(1000))
    found = excerpt(text, at)
    assert len(found) <= 180
    assert text[at : at + 1] in found
    assert found in text
    assert excerpt("", at) == ""
