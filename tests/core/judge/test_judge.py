"""Whether a turn reused the one before, why not, and what it cost."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Reason,
    Rewrite,
)
from cacheproxy.core.judge.evidence import Before, Evidence, Meanwhile, Proof
from cacheproxy.core.judge.judge import (
    judge,
    wants_proof,
)
from cacheproxy.core.kinds.profile import Memory, Profile, Reporting
from cacheproxy.core.kinds.profile import MemoryKind as Memories
from cacheproxy.core.prompt.prompt import PromptOrder, reordered
from tests import golden, transcript
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
)
from tests.core.planting import chat


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


def test_all_that_is_said():
    transcript.holds("judge.txt", globals())
