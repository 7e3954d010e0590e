"""The verdict, from what is known; whether the proxy is needed at all; the look of the report."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cacheproxy.client_setup.finding import Finding, FindingState, fail
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.core.servers.profile import Profile
from cacheproxy.doctor.facts import Proxy, SeenUpstream
from cacheproxy.doctor.report import Conclusion, DoctorReport, Working, conclude, judge
from cacheproxy.doctor.trial import Trial
from cacheproxy.plugin.packages import Packages
from tests.doctor.builders import (
    CHECKED,
    HERE,
    RUNS,
    facts,
    record,
    recorded,
    seen,
    shot,
    trial,
)

WORKS = facts(trials=(trial(639, 33),))
GOOD = record((1, 0, "cold"), (2, 17_800, "ok"))
REFUSED = seen(9, client="cline", status=500, prompt=None)
MALFORMED = seen(9, client="cline", status=400, prompt=None)
AGAIN = seen(10, 2, reused=17_800, client="cline")


@pytest.mark.parametrize(
    ("seen", "answer", "words"),
    [
        (
            record((1, 0, "cold"), (2, 17_800, "ok"), (3, 17_900, "ok")),
            Working.YES,
            "66 % of 54.0K tokens in 3 turns were reused.",
        ),
        (
            record((1, 0, "cold"), (2, 33, "BREAK"), (3, 33, "BREAK"), (4, 17_000, "ok")),
            Working.NO,
            "2 of 3 follow-up turns lost the cache; 24 % of 72.0K tokens in 4 turns were reused.",
        ),
        (
            record((1, 0, "cold"), (2, 9_000, "BREAK"), (3, 17_000, "ok")),
            Working.MOSTLY,
            "1 of 2 follow-up turns lost the cache; 48 % of 54.0K tokens in 3 turns were reused.",
        ),
        (
            record((1, 0, "cold"), (2, 16_900, "BREAK"), (3, 17_000, "ok")),
            Working.YES,
            "63 % of 54.0K tokens in 3 turns were reused; 1 of 2 follow-up turns lost the cache.",
        ),
        (
            recorded(*(seen(n, n, expected=n // 2 * 18_000) for n in (1, 2, 3))),
            Working.NO,
            "The server cut 2 of 3 turns to fit its context; 0 % of 54.0K tokens in 3 turns were",
        ),
        (
            recorded(*(seen(n, n, reused=None, expected=n // 4 * 18_000) for n in range(1, 6))),
            Working.MOSTLY,
            "The server cut 2 of 5 turns to fit its context.",
        ),
        (recorded(*GOOD.rows, REFUSED), Working.NO, "The only request of cline failed."),
        (recorded(*GOOD.rows, REFUSED, AGAIN, AGAIN), Working.YES, "reused"),
        (recorded(*GOOD.rows, MALFORMED), Working.YES, "49 % of 36.0K tokens in 2 turns were"),
        (recorded(*GOOD.rows, now=9_999.0), Working.YES, "A test prompt reused 639 of 640"),
        (record((1, 0, "cold")), Working.YES, "A test prompt reused 639 of 640 tokens"),
    ],
)
def test_what_agents_requests_showed_comes_before_the_test_prompt(seen, answer, words):
    """First turns could not reuse anything: then the test prompt has its say."""
    found = conclude(replace(WORKS, record=seen), ())
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
        (
            {"trials": (trial(639, 33), trial(0, 0, api=MESSAGES))},
            Working.NO,
            "but not on /v1/messages",
        ),
        (
            {"trials": (replace(trial(0, 0), same=shot(0)),)},
            Working.NO,
            ("reused nothing, not even when the"),
        ),
        (
            {
                "trials": (replace(trial(0, 0), same=shot(639)),),
                "proxy": replace(RUNS, rules=("another",)),
            },
            Working.NOT_MEASURED,
            "No rule for the test prompt's header",
        ),
        (
            {"trials": (replace(trial(0, 0), error="x"),)},
            Working.NOT_MEASURED,
            ("test requests failed"),
        ),
        (
            {"trials": (trial(639, 639),)},
            Working.NOT_NEEDED,
            "The server reuses a prompt although its billing header changes, with the rules and",
        ),
    ],
)
def test_what_the_test_prompt_showed(change, answer, words):
    found = conclude(replace(WORKS, **change), ())
    assert found.answer is answer
    assert words in found.text


@pytest.mark.parametrize("name", ["traffic", "claude"])
def test_an_agent_that_goes_past_is_not_measured_by_the_test_prompt(name):
    found = conclude(WORKS, [fail(name, "")])
    assert found.answer is Working.NOT_MEASURED
    assert "test prompt" not in found.text


PLAIN = [CHECKED]
OFF = [replace(CHECKED, checkup=replace(CHECKED.checkup, needless="it has no volatile header"))]
CLAUDE = ("claude-billing-header",)
BOTH = (*CLAUDE, "openclaw-message-id")
LOST, KEPT = trial(639, 33), trial(639, 639)
REPAIRED = trial(639, 46, next_turn=639, api=MESSAGES)
FAILED = Trial(MESSAGES, through_proxy=True, error="no")


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
    proxy, kept = replace(RUNS, rules=rules), recorded(*(seen(client=one) for one in clients))
    need = judge(facts(trials=tuple(trials), checked=tuple(checked), proxy=proxy, record=kept))
    assert need.is_superfluous is is_superfluous
    assert words in need.text


@pytest.mark.parametrize("trials", [[], [FAILED], [trial(0, 0)]])
def test_nothing_is_said_where_nothing_is_known(trials):
    """Not sent, not answered, not reused."""
    assert judge(facts(trials=tuple(trials))) is None


@pytest.mark.parametrize(("trials", "checked"), [([KEPT], PLAIN), ([], OFF)])
def test_a_template_that_takes_no_late_system_message_needs_the_proxy(trials, checked):
    """Whatever becomes of the header: without the proxy requests are refused, or read again."""
    profile = Profile(placement=alike(Late.REFUSED, ""))
    known = facts(profile=profile, trials=tuple(trials), checked=tuple(checked))
    need = judge(known)
    assert not need.is_superfluous
    assert need.text.startswith("needed: this server's template")
    assert need.text.endswith("stand; Claude Code sends one in each turn")
    nobody = replace(HERE, packages=Packages([]))
    assert judge(replace(known, found=nobody)).text.endswith("where they stand")


FINDINGS = (
    Finding("proxy", FindingState.OK, "it listens"),
    Finding("upstream", FindingState.WARN, "word " * 40, "do this"),
    Finding("reuse", FindingState.FAIL, "evil \x1b[31m name"),
)


def report(*findings):
    return DoctorReport(Conclusion(Working.NO, "It is not. " * 12), findings)


def text(shown, *, terminal=False, width=96):
    return shown.text(Console(file=io.StringIO(), force_terminal=terminal, width=width))


def test_verdict_first_then_a_line_for_each_finding():
    """With what mends it below, the count, and the exit code. Control characters are spelt out."""
    lines = text(report(*FINDINGS)).splitlines()
    assert lines[0].startswith("Is the cache working?   NO   It is not.")
    at = lines.index("  proxy     ok    it listens")
    assert lines[at + 1].startswith("  upstream  warn  word word")
    assert " " * 18 + "fix: do this" in lines
    assert r"  reuse     FAIL  evil \x1b[31m name" in lines
    assert lines[-1].startswith("1 warning, 1 problem. Exit code 1.")


@pytest.mark.parametrize("width", [60, 96])
def test_no_line_is_wider_than_the_console(width):
    """But for commands, which must be copied whole."""
    for line in text(report(*FINDINGS[:2]), width=width).splitlines()[:-1]:
        assert len(line) <= width


def test_colours_only_on_a_terminal(monkeypatch):
    """And not where they are not wanted."""
    assert "\x1b" not in text(report(*FINDINGS))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31mFAIL" in text(report(*FINDINGS), terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in text(report(*FINDINGS), terminal=True)


def test_warnings_are_no_failure():
    assert report(*FINDINGS[:2]).exit_code == 0
    assert report(*FINDINGS).json()["findings"][1]["fix"] == "do this"
