"""The verdict, from what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.server.identify import Server
from cacheproxy.doctor.conclusion import Answer, Known, conclude
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.need import Need
from cacheproxy.doctor.proxy import Proxy
from cacheproxy.doctor.record import Record, Seen
from cacheproxy.doctor.upstream import Upstream
from tests.doctor.test_need import shot, trial

UP = Upstream("http://localhost:8080", Server("llama-server"))
RUNS = Proxy("http://127.0.0.1:8081", "0.1.0", rules=("claude-billing-header",))
WORKS = Known(RUNS, UP, None, (trial(639, 33),), Need(False, "needed"))


def said(known, *findings):
    found = conclude(known, findings)
    return found.answer, found.text


def seen(*turns):
    return Record(
        tuple(
            Seen(n, "claude", "3f9a", turn, False, 18_000, reused, verdict, "", 0.0)
            for n, (turn, reused, verdict) in enumerate(turns)
        )
    )


def test_what_agents_requests_showed_comes_first():
    """Whatever the test prompt did."""
    good = seen((1, 0, "cold"), (2, 17_800, "ok"), (3, 17_900, "ok"))
    assert said(replace(WORKS, record=good)) == (
        Answer.YES,
        "66.1% of 54,000 prompt tokens were reused in the last 3 requests.",
    )
    bad = seen((1, 0, "cold"), (2, 33, "BREAK"), (3, 33, "BREAK"), (4, 17_000, "ok"))
    answer, text = said(replace(WORKS, record=bad))
    assert answer is Answer.NO
    assert text.endswith("2 of 3 later turns lost the cache.")


def test_requests_that_fail_are_no_success():
    """Whatever the test prompt did, and however well the turns before went."""
    good = seen((1, 0, "cold"), (2, 17_800, "ok"))
    refused = replace(good.seen[0], number=9, client="cline", status=400, prompt=None)
    assert said(replace(WORKS, record=Record((*good.seen, refused)))) == (
        Answer.NO,
        "The only request of cline failed.",
    )
    again = replace(good.seen[1], number=10, client="cline")
    assert said(replace(WORKS, record=Record((*good.seen, refused, again, again))))[0] is Answer.YES


def test_first_turns_alone_say_nothing():
    """They could not reuse anything; then the test prompt has its say."""
    assert said(replace(WORKS, record=seen((1, 0, "cold"))))[0] is Answer.YES


def test_an_agent_that_goes_past():
    """The test prompt's reuse is not the agent's."""
    past = Finding("traffic", State.FAIL, "")
    assert said(WORKS, past) == (
        Answer.NOT_MEASURED,
        "No agent request has come through the proxy yet.",
    )
    assert said(WORKS, replace(past, name="claude"))[0] is Answer.NOT_MEASURED


def test_not_needed():
    """Said as such."""
    need = Need(True, "not needed: the server does it all")
    assert said(replace(WORKS, need=need)) == (Answer.NOT_NEEDED, "The server does it all.")


@pytest.mark.parametrize(
    ("change", "answer", "words"),
    [
        ({}, Answer.YES, "A test prompt reused 639 of 640 tokens"),
        ({"upstream": Upstream("x", problem="it is down")}, Answer.NOT_MEASURED, "It is down."),
        (
            {"proxy": Proxy("http://h:1", problem="no")},
            Answer.NO,
            "No proxy answers at http://h:1.",
        ),
        ({"trials": ()}, Answer.NOT_MEASURED, "No test prompt was sent."),
        ({"trials": (trial(0, 0),)}, Answer.NO, "was not reused"),
        ({"trials": (trial(639, 33), trial(0, 0, path="/p"))}, Answer.NO, "but not on /p"),
        (
            {"trials": (replace(trial(0, 0), same=shot(0)),)},
            Answer.NO,
            "not even of the very same prompt",
        ),
        (
            {"trials": (replace(trial(0, 0), same=shot(639), edited=False),)},
            Answer.NOT_MEASURED,
            "No rule for the test prompt's header",
        ),
        ({"trials": (replace(trial(0, 0), error="x"),)}, Answer.NOT_MEASURED, "not answered"),
    ],
)
def test_what_the_test_prompt_showed(change, answer, words):
    """The answer, and why."""
    found = said(replace(WORKS, need=None, **change))
    assert found[0] is answer
    assert words in found[1]
