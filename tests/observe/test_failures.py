"""Which clients are stuck, in which words, and what mends it."""

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy.observe.failures import stuck
from cacheproxy.record.exchange import Exchange, Outcome
from tests import transcript

NOW = 1_700_000_000.0


def one(ago=1.0, client="agent", path="/v1/messages", **more):
    """A prompt of some seconds ago that went well, but for ``more``."""
    plain = {"status": 200, "outcome": Outcome.COMPLETE, "turn": 1}
    session = Session(client, "s")
    return Exchange(Request("POST", path), NOW - ago, session=session, **plain | more)


REFUSED = {"status": 400, "turn": 0, "error": "request (9000 tokens) exceeds the context size"}
BROKEN = {"outcome": Outcome.UPSTREAM_FAILED, "error": "Overloaded now"}


@pytest.mark.parametrize(
    ("recent", "said"),
    [
        ([one()], []),
        ([one(**BROKEN), one()], []),
        (
            [one(), one(**BROKEN)],
            ['agent failed just now on /v1/messages, with HTTP 200 and then: "Overloaded now"'],
        ),
        (
            [one(**REFUSED)],
            [f'agent failed just now on /v1/messages, with HTTP 400: "{REFUSED["error"]}"'],
        ),
        (
            [one(outcome=Outcome.EMPTY)],
            ["agent failed just now on /v1/messages, with an answer that says nothing"],
        ),
        ([one(outcome=Outcome.CLIENT_LEFT)], []),
        ([one(7200.0, **BROKEN)], []),
        ([one(path="/v1/messages/count_tokens", **REFUSED)], []),
        (
            [one(**BROKEN), one(client="other", **REFUSED), one(client="third")],
            ["agent failed", "other failed"],
        ),
    ],
)
def test_the_last_word_of_each_client(recent, said):
    found = [text for text, _ in stuck(recent, NOW)]
    assert len(found) == len(said)
    for text, what in zip(found, said, strict=True):
        assert text.startswith(f"The last request of {what}")


def test_a_conversation_that_is_refused_three_times_alike_is_stuck():
    recent = [one(900.0), *(one(each, **REFUSED) for each in (600.0, 300.0, 0.5))]
    [(text, _)] = stuck(recent, NOW)
    assert text == (
        "agent/s is stuck: it was refused 3 times in the same way, first 10 min ago, the last just "
        f'now on /v1/messages, with HTTP 400: "{REFUSED["error"]}"'
    )
    for other in (one(400.0), one(400.0, **REFUSED | {"error": "another"})):
        [(text, _)] = stuck([*recent[:2], other, *recent[2:]], NOW)
        assert text.startswith("The last request of agent failed just now")


def test_all_that_is_said():
    transcript.holds("failures.txt", globals())
