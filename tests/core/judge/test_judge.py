"""Whether a turn reused the one before, why not, and what it cost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Judgement,
    Reason,
    Rewrite,
    TokenCount,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.evidence import Before, Evidence, Meanwhile, Proof
from cacheproxy.core.judge.judge import (
    describe_change,
    excerpt,
    judge,
    located,
    order_of,
    parted_at,
    wants_proof,
)
from cacheproxy.core.kinds.profile import Memory, Profile, Reporting
from cacheproxy.core.kinds.profile import MemoryKind as Memories
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of, reordered
from tests import golden
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
    spelled,
    summarised,
    verdict,
    with_history,
    with_last,
    with_nonce,
    with_tool,
)
from tests.core.planting import anthropic, chat, numbered, plant, request


def in_order(order, change):
    """Two prompts in the order that we assume, and what a server of another ``order`` reuses."""
    one, two = changed(change)
    return one, two, shared(*(reordered(prompt, order) for prompt in (one, two)))


FILE = Path(__file__).with_name("verdicts.txt")
NEVER = Profile(reporting=Reporting.NEVER)
CHECKPOINTED = Profile(memory=Memory(Memories.CHECKPOINTED))
ONE, TWO = changed(with_nonce)
LONG, SHORT = summarised()
EXACT = shared(ONE, TWO)
REWRITTEN = Proof(TOKENS, GROWN, 600, rewrite=Rewrite.THINKING)


def blocks(size, **more):
    return Profile(memory=Memory(Memories.BLOCKS, block=size, **more))


def edited(reused, change=with_nonce, **more):
    """The second of two turns between which the client changed something."""
    one, two = changed(change)
    reused = shared(one, two) if reused == "shared" else reused
    return verdict(reused, sent=two, known=before(one), **more)


def replaced(usage, **more):
    """A history that the client wrote anew."""
    return judged(before(LONG), SHORT, usage, is_replaced=True, **more)


def first(prompt, *usage, **more):
    return judged(None, prompt, Usage(*usage), is_first=True, **more)


def parted(proof):
    """What was rendered parts elsewhere than the requests do."""
    where = structs.replace(verdict(10, sent=TWO).where, path="/messages/2/reasoning")
    return verdict(590, proof=structs.replace(proof, where=where))


def without_a_tool(body, turn):
    _ = turn and body["tools"].pop()


def with_model(body, turn):
    with_history(body, turn)
    body.update(model=f"m{turn}")


SHRUNK = Usage(GROWN // 2, shared(LONG, SHORT))
CASES = {
    # the first turn that we see may have begun elsewhere, or share its head with others
    "first: nothing reused": lambda: first(FIRST, TOKENS, 0),
    "first: much reused": lambda: first(SECOND, GROWN, 700),
    "first: answers in it, and little reused": lambda: first(SECOND, GROWN, 400),
    "first: answers in it, and nothing told": lambda: first(SECOND),
    "first: no answers, and little reused": lambda: first(FIRST, TOKENS, 400),
    "first: no answers, and most reused": lambda: first(FIRST, TOKENS, 900),
    # it repeats what was said, so it has answers in it
    "side request of one that we know": lambda: first(SECOND, GROWN, 0, is_known=True),
    **{
        f"{missing} short of all": lambda missing=missing: verdict(TOKENS - missing)
        for missing in (0, 32, 50, 51, 970)
    },
    # 488 of 1,000 tokens are missing: less than a block, two blocks, or the last checkpoint
    "half: any memory": lambda: verdict(512),
    "half: blocks of 16": lambda: verdict(512, profile=blocks(16)),
    "half: blocks of 512": lambda: verdict(512, profile=blocks(512)),
    "half: blocks of 256": lambda: verdict(512, profile=blocks(256)),
    "half: hybrid": lambda: verdict(512, profile=blocks(256, is_hybrid=True)),
    "half: checkpoints": lambda: verdict(512, profile=CHECKPOINTED),
    "system text": lambda: edited("shared", seconds=11.0),
    "a tool went": lambda: edited("shared", without_a_tool),
    "history": lambda: edited("shared", with_history),
    # no text is blamed for another model, though one has changed, too
    "model": lambda: edited(0, with_model),
    "model, nothing told": lambda: edited(None, with_model),
    "order known, tools first": lambda: edited(
        in_order(PromptOrder.SYSTEM_FIRST, with_nonce)[2],
        profile=Profile(order=PromptOrder.TOOLS_FIRST),
    ),
    "order known, system first": lambda: edited(
        in_order(PromptOrder.SYSTEM_FIRST, with_nonce)[2],
        profile=Profile(order=PromptOrder.SYSTEM_FIRST),
    ),
    # nothing is lost by a compaction: there is nothing more that could have been reused
    "compacted": lambda: replaced(SHRUNK),
    "compacted, nothing told": lambda: replaced(Usage(GROWN // 2)),
    "compacted, told a constant": lambda: replaced(Usage(500, 0), profile=NEVER),
    "compacted, nothing before": lambda: judged(None, SHORT, SHRUNK, is_replaced=True),
    # the tools and the system text are equal
    "compacted, but not its head": lambda: replaced(Usage(GROWN // 2, 0)),
    "compacted, and slots emptied": lambda: replaced(
        Usage(GROWN // 2, 0), meanwhile=Meanwhile(emptied=True)
    ),
    "compacted, with another system text": lambda: judged(
        before(ONE), TWO, Usage(GROWN, EXACT), is_replaced=True
    ),
    "forgotten: nothing told": lambda: judged(None, SECOND, Usage()),
    "forgotten: told a constant": lambda: judged(None, SECOND, Usage(GROWN, 0), profile=NEVER),
    "forgotten: reused": lambda: judged(None, SECOND, Usage(1000, 900)),
    "forgotten: not reused": lambda: judged(None, SECOND, Usage(1000, 10)),
    "what the edits saved": lambda: verdict(990, unedited=TWO, known=before(FIRST, ONE)),
    # where nothing was measured nothing is judged, but a change is shown
    **{
        f"{kind}, {name}": lambda pair=pair, given=given: judged(before(pair[0]), pair[1], *given)
        for kind, pair in (("edited", (ONE, TWO)), ("same", (FIRST, SECOND)))
        for name, given in (("nothing told", [Usage()]), ("reuse not told", [Usage(GROWN)]))
    },
    "edited, told a constant": lambda: edited(0, profile=NEVER),
    "same, told a constant": lambda: verdict(0, profile=NEVER),
    "reuses nothing": lambda: verdict(0, profile=Profile(reuses=False)),
    "reuses nothing, nor counts": lambda: judged(
        before(), SECOND, Usage(), profile=Profile(reuses=False)
    ),
    "rendered anew": lambda: parted(REWRITTEN),
    # what is beneath a checkpoint keeps its place
    "checkpoint": lambda: edited(
        200, with_last, proof=Proof(TOKENS, GROWN, 700, fits=True), profile=CHECKPOINTED
    ),
    # a clock in the template stands in no request: it is placed by what was reused
    "clock": lambda: verdict(60, proof=Proof(TOKENS, GROWN, TOKENS, clock=50)),
    # no more is shared than the prompt has
    "shared more than the prompt": lambda: verdict(
        30, known=before(tokens=1_200), proof=Proof(1_200, GROWN, 1_200), is_whole=False
    ),
}


def test_verdicts():
    """Whole: all that is said of a turn; tokens with ~ are estimated."""
    texts = [f"{name}: {spelled(case())}" for name, case in CASES.items()]
    golden.agrees(FILE, "verdicts", "\n".join(texts))


def tail(*texts):
    """A prompt that ends with these texts, by turns the user's and the model's."""
    (body,) = chat(1)
    body["messages"] += [
        {"role": ("assistant", "user")[at % 2], "content": text} for at, text in enumerate(texts)
    ]
    return prompts([body])[0]


WORDS = " ".join(f"word{number}" for number in range(400))
OTHER = " ".join(f"other{number}" for number in range(400))


@pytest.mark.parametrize(
    ("was", "now", "evaluated", "lost"),
    [
        (("a", "b", WORDS, "d"), ("a", "e"), 20, 0),  # a rewind
        (("a", WORDS), ("a", OTHER), 500, 0),  # the last prompt in other words
        (("a", f"Monday {WORDS} Monday"), ("a", f"Friday {WORDS} Friday"), 600, 500),  # a clock
        (
            ("a", WORDS),
            ("a", OTHER, "c", "d"),
            600,
            0,
        ),  # it was answered, and rewritten since
        (
            ("a", "b", "c", WORDS, "d"),
            ("a", "e", "c", WORDS, "d", "f"),
            600,
            480,
        ),  # what is behind it
        (("a", "b"), ("a", "b", "c", WORDS), 900, 0),  # it grew, and all was there
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


@pytest.mark.parametrize("usage", [Usage(), Usage(GROWN, None), Usage(GROWN, 300)])
def test_counts_that_fit_no_order_or_both_show_none(usage):
    assert order_of(Evidence(before(ONE), TWO, TWO, usage)) is None
    assert order_of(Evidence(before(), SECOND, SECOND, Usage(GROWN, TOKENS))) is None


def is_proof_wanted(reused, **known):
    turn = Evidence(
        **{"before": before(), "sent": SECOND, "unedited": SECOND} | known,
        usage=Usage(GROWN, reused),
    )
    return wants_proof(turn, judge(turn))


def test_a_proof_is_wanted_where_the_requests_do_not_tell():
    for reused, wanted in ((EXACT, False), (EXACT + 60, True), (300, True), (TOKENS, False)):
        turn = {"before": before(ONE), "sent": TWO, "unedited": TWO}
        assert is_proof_wanted(reused, **turn) is wanted, reused
    assert is_proof_wanted(30)
    assert not is_proof_wanted(0, meanwhile=Meanwhile(moved=True))
    assert not is_proof_wanted(590, proof=REWRITTEN)
    assert not is_proof_wanted(0, before=None)
    assert not is_proof_wanted(None)


@given(
    reused=st.one_of(st.none(), st.integers(0, 3000)),
    prompt=st.one_of(st.none(), st.integers(0, 3000)),
    tokens=st.one_of(st.none(), st.integers(0, 3000)),
    change=st.booleans(),
    memory=st.sampled_from(Memories),
)
def test_figures_are_never_negative(reused, prompt, tokens, change, memory):
    one, two = (ONE, TWO) if change else (FIRST, SECOND)
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
        (("one", QUESTION, "two"), ("one", "two", QUESTION), ChangeKind.ADDED),
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
