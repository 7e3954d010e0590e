"""Which clients are stuck, in which words, and what mends it."""

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy.observe.failures import cure_of, stuck
from cacheproxy.record.exchange import Exchange, Outcome

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


def test_what_mends_it():
    assert (
        cure_of(one(**REFUSED))
        == "Give the server a larger context, or the client a smaller window"
    )
    assert cure_of(one(**BROKEN)) == "Look in the model server's log"
    assert "template" in cure_of(one(outcome=Outcome.EMPTY))
    assert cure_of(one(status=401)) == "Give the client the model server's key"


@pytest.mark.parametrize(
    ("error", "mend"),
    [
        (
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser',
            "--tool-call-parser NAME",
        ),
        ("tools param requires --jinja flag", "with --jinja"),
        ("This server does not support embeddings. Start it with `--embeddings`", "--embeddings,"),
        ("registry.ollama.ai/library/gemma:2b does not support tools", "model that supports tools"),
        ("model 'claude-haiku-4-5' not found", "a model that the server has"),
        ("llama.cpp does not support 'previous_response_id'.", "the whole history"),
        ("default chat template is no longer allowed, so you must provide", "--chat-template FILE"),
    ],
)
def test_what_no_request_can_mend_is_named_with_its_cure(error, mend):
    assert mend in cure_of(one(status=400, turn=0, error=error))


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
