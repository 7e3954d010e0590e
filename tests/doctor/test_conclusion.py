"""The verdict, from what is known; and whether the proxy is needed at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.client_setup.finding import fail
from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.core.prompt.client import Client
from cacheproxy.doctor.conclusion import Examination, Superfluous, Working, conclude, judge
from cacheproxy.doctor.proxy import Proxy
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.reuse import Trial
from cacheproxy.doctor.upstream import SeenUpstream
from tests.doctor.builders import CHECKED, CLIENT, record, seen, server_look, shot, trial

UP = SeenUpstream("http://localhost:8080", server_look())
RUNS = Proxy("http://127.0.0.1:8081", "0.1.0", rules=("claude-billing-header",))
WORKS = Examination(RUNS, UP, None, (trial(639, 33),), Superfluous(False, "needed"))
GOOD = record((1, 0, "cold"), (2, 17_800, "ok"))
REFUSED = seen(9, client="cline", status=400, prompt=None)
AGAIN = seen(10, 2, reused=17_800, client="cline")


@pytest.mark.parametrize(
    ("seen", "answer", "words"),
    [
        (
            record((1, 0, "cold"), (2, 17_800, "ok"), (3, 17_900, "ok")),
            Working.YES,
            "66.1% of 54,000 prompt tokens were reused in the last 3 requests.",
        ),
        (
            record((1, 0, "cold"), (2, 33, "BREAK"), (3, 33, "BREAK"), (4, 17_000, "ok")),
            Working.NO,
            "2 of 3 follow-up turns lost the cache.",
        ),
        (Record((*GOOD.seen, REFUSED)), Working.NO, "The only request of cline failed."),
        (Record((*GOOD.seen, REFUSED, AGAIN, AGAIN)), Working.YES, "reused"),
        (record((1, 0, "cold")), Working.YES, "A test prompt reused 639 of 640 tokens"),
    ],
)
def test_what_agents_requests_showed_comes_before_the_test_prompt(seen, answer, words):
    """First turns could not reuse anything: then the test prompt has its say."""
    found = conclude(replace(WORKS, record=seen))
    assert found.answer is answer
    assert words in found.text


@pytest.mark.parametrize(
    ("change", "answer", "words"),
    [
        ({}, Working.YES, "A test prompt reused 639 of 640 tokens"),
        (
            {"upstream": SeenUpstream("x", problem="it is down")},
            Working.NOT_MEASURED,
            "It is down.",
        ),
        (
            {"proxy": Proxy("http://h:1", problem="no")},
            Working.NO,
            "No proxy answers at http://h:1",
        ),
        ({"trials": ()}, Working.NOT_MEASURED, "No test prompt was sent."),
        ({"trials": (trial(0, 0),)}, Working.NO, "was not reused"),
        ({"trials": (trial(639, 33), trial(0, 0, path="/p"))}, Working.NO, "but not on /p"),
        (
            {"trials": (replace(trial(0, 0), same=shot(0)),)},
            Working.NO,
            ("reused nothing, not even when the"),
        ),
        (
            {"trials": (replace(trial(0, 0), same=shot(639), edited=False),)},
            Working.NOT_MEASURED,
            "No rule for the test prompt's header",
        ),
        (
            {"trials": (replace(trial(0, 0), error="x"),)},
            Working.NOT_MEASURED,
            ("test requests failed"),
        ),
        (
            {"need": Superfluous(True, "not needed: it does it all")},
            Working.NOT_NEEDED,
            "It does it all.",
        ),
    ],
)
def test_what_the_test_prompt_showed(change, answer, words):
    found = conclude(replace(WORKS, **({"need": None} | change)))
    assert found.answer is answer
    assert words in found.text


@pytest.mark.parametrize("name", ["traffic", "claude"])
def test_an_agent_that_goes_past_is_not_measured_by_the_test_prompt(name):
    found = conclude(replace(WORKS, findings=(fail(name, ""),), checked=(CHECKED,)))
    assert found.answer is Working.NOT_MEASURED
    assert "test prompt" not in found.text


PLAIN = [CHECKED]
OFF = [replace(CHECKED, checkup=replace(CHECKED.checkup, needless="it has no volatile header"))]
CLAUDE = ("claude-billing-header",)
BOTH = (*CLAUDE, "openclaw-message-id")
LOST, KEPT = trial(639, 33), trial(639, 639)
REPAIRED = trial(639, 46, next_turn=639, path="/v1/messages")
FAILED = Trial("/v1/messages", through_proxy=True, error="no")


@pytest.mark.parametrize(
    ("trials", "checked", "rules", "clients", "is_superfluous", "words"),
    [
        (
            [LOST],
            *(PLAIN, CLAUDE, (), False),
            "needed: on /v1/chat/completions 33 of 640 tokens are reused without the proxy",
        ),
        ([KEPT], PLAIN, CLAUDE, (), True, "with the rules and without"),
        ([KEPT, LOST], PLAIN, CLAUDE, (), False, "needed: on"),
        ([KEPT], PLAIN, BOTH, (), False, "perhaps for others; other rules: openclaw-message-id"),
        ([], OFF, CLAUDE, ("claude",), True, "no volatile header"),
        ([], OFF, CLAUDE, ("claude", "openclaw"), False, "perhaps for others"),
        ([], OFF, BOTH, (), False, "perhaps for others"),
        ([LOST, REPAIRED], PLAIN, CLAUDE, (), False, "on /v1/chat/completions 33 of 640"),
        ([REPAIRED], PLAIN, CLAUDE, (), False, "partly: on /v1/messages the server repairs"),
    ],
)
def test_whether_it_is_needed(  # noqa: PLR0917 (a table)
    trials, checked, rules, clients, is_superfluous, words
):
    """The header costs the prompt, or the server or the client's own switch sees to it."""
    need = judge(trials, checked, rules, clients)
    assert need.is_superfluous is is_superfluous
    assert words in need.text


@pytest.mark.parametrize("trials", [[], [FAILED], [trial(0, 0)]])
def test_nothing_is_said_where_nothing_is_known(trials):
    """Not sent, not answered, not reused."""
    assert judge(trials, PLAIN, CLAUDE, ()) is None


@pytest.mark.parametrize(("trials", "checked"), [([KEPT], PLAIN), ([], OFF)])
def test_a_template_that_takes_no_late_system_message_needs_the_proxy(trials, checked):
    """Whatever becomes of the header: without the proxy requests are refused, or read again."""
    refused = alike(Late.REFUSED, "")
    need = judge(trials, checked, CLAUDE, ("claude",), refused, [CLIENT, Client("other")])
    assert not need.is_superfluous
    assert need.text.startswith("needed: this server's template")
    assert need.text.endswith("stand; Claude Code sends one in each turn")
    assert judge(trials, [], (), (), refused).text.endswith("where they stand")
