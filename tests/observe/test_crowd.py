"""Which crowd is recognised in the last turns, and what it lost."""

from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, Sign, TokenCount, Verdict
from cacheproxy.core.prompt.prompt import Parts, PromptOrder
from tests import transcript

from .exchanges import body, exchange

NOW = 1_700_010_000.0


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


def test_all_that_is_said():
    transcript.holds("crowd.txt", globals())
