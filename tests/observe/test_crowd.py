"""Which crowd is recognised in the last turns, and what it lost."""

import pytest

from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, Sign, TokenCount, Verdict
from cacheproxy.core.kinds.crowds import Crowd
from cacheproxy.core.prompt.prompt import Parts, PromptOrder
from cacheproxy.observe.crowd import crowd_of

from .exchanges import URL, body, exchange

NOW = 1_700_010_000.0
MAIN = Session("agent", "main")


def turn(session, at, number=1, *, lost=0, reused=0, sign=Sign.OTHERS, root=None, **more):
    """A turn of 1,000 tokens, 500 of them tools and system text, that takes 5 seconds."""
    verdict = Verdict(
        Judgement.BREAK if lost else Judgement.COLD,
        Reason.EVICTED if lost else None,
        lost=TokenCount(lost, "measured") if lost else None,
        evidence=(sign,) if lost else (),
    )
    lane = more.pop("lane", 0)
    fields = {
        "turn": number,
        "wall": NOW - 3600 + at,
        "seconds": 5.0,
        "verdict": verdict,
        "usage": Usage(1000, reused, 5, None),
        "place": Place(lane, number, is_side=lane > 0, root=root),
        "parts": Parts(300, 200, 400, 0, 100, PromptOrder.TOOLS_FIRST),
    }
    return exchange(body("x"), session=session, **fields | more)


def by_turns(lost, reused, **more):
    first = [turn(name, 10 * at) for at, name in enumerate("ab")]
    return first + [
        turn(name, 20 + 10 * at, 2, lost=lost, reused=reused, **more)
        for at, name in enumerate("ab")
    ]


def beside(**who):
    """A main thread that another request of its own lost its place to."""
    return [turn("main", 0), turn("x", 10, **who), turn("main", 20, 2, lost=900)]


SMALL = Parts(100, 80, 720, 0, 100, PromptOrder.TOOLS_FIRST)
CASES = {
    "none": ([], None),
    "one at a time": ([turn("a", 0), turn("a", 10, 2, reused=900)], None),
    "by turns": (by_turns(500, 400), (Crowd.TURNS, 2, 1000)),
    "by turns, nine tenths left": (by_turns(200, 800), (Crowd.HEAD, 2, 400)),
    "too little to feel": (by_turns(50, 900), None),
    "the server was restarted": (by_turns(900, 0, sign=Sign.RESTARTED), None),
    "another server's": (by_turns(900, 0, upstream="http://other"), None),
    "yesterday's": (by_turns(500, 400, wall=NOW - 90_000), None),
    "failed": (by_turns(500, 400, status=500), None),
    "a subagent of its own": (beside(root=Session("agent", "main")), (Crowd.SUBAGENTS, 1, 900)),
    "a title": ([turn("main", 0), turn("main", 10, lane=1), turn("main", 20, 2, lost=900)],
                (Crowd.SUBAGENTS, 1, 900)),
    "started together": ([turn(str(at), at) for at in range(4)], (Crowd.TOGETHER, 3, 1500)),
    "together, on one slot": (
        [turn("0", 0), *(turn(str(at), at, reused=480) for at in (1, 2))], None
    ),
    "started one after the other": ([turn(str(at), 10 * at) for at in range(4)], None),
    "together, with other heads": ([turn("a", 0), turn("b", 1, parts=SMALL)], None),
    "together, and a title first": (
        [turn("t", 0, parts=SMALL), *(turn(str(at), at) for at in (1, 2))],
        (Crowd.TOGETHER, 1, 500),
    ),
    "together, uncounted": ([turn(str(at), at, parts=None) for at in range(4)], None),
    "the dearest of two": (
        [*by_turns(500, 400), *(turn(str(at), 100 + at / 9) for at in range(9))],
        (Crowd.TOGETHER, 8, 4000),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_crowd(name):
    turns, expected = CASES[name]
    found = crowd_of(reversed(turns), URL, NOW)
    assert (found and found[:3]) == expected
    assert found is None or found.seconds == 3600
