"""What a replay says: no prompt text, no wider than 96, the same in each form."""

from dataclasses import replace

import pytest
from cacheproxy_replay import Via
from cacheproxy_replay.estimate import figures
from cacheproxy_replay.plan import plan
from cacheproxy_replay.report import WIDTH, ReplayReport, record
from cacheproxy_replay.run import ReplayRun

from cacheproxy.asking import Site
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.words import TIMES, seconds, share, times
from tests import conversation
from tests.conversation import assessed, turns

BEFORE = [(10_000, 0, 1, 40.0), (10_500, 30, 1, 41.0), (11_000, 30, 1, 44.0)]
AFTER = [(10_000, 0, 1, 40.0), (10_500, 10_000, 1, 2.0), (11_000, 10_500, 1, 2.0)]


@pytest.fixture
def report(rules):
    return reported(rules, BEFORE, AFTER)


def reported(rules, before, after, **options):
    run = ReplayRun(plan(conversation.captured(turns=3)), Site("http://x:1"), rules, via=Via.RULES)
    run.captured = turns(rules, before, through=False)
    run.through = turns(rules, after, through=True)
    return report_of(run, **options)


def report_of(run, **options):
    found = figures(*map(assessed, run.passes))
    return ReplayReport(
        run, found, "a server", PromptOrder.SYSTEM_FIRST, None, ("a.har",), **options
    )


def text_of(report):
    return [line for line, _ in report.text("2026-11-21")]


def test_the_verdict_is_the_ratio_and_both_sides_are_in_the_table(report):
    verdict = f"2.8{TIMES} faster prefill, 2.9{TIMES} fewer prompt tokens to evaluate."
    assert report.verdict() == verdict
    lines = text_of(report)
    assert lines[0].startswith("Replaying 3 requests twice, in order, max_tokens=1. Both passes")
    assert "  reused                    60 0.2%        20,500 65.1%" in lines
    assert any(line.endswith(" BREAK") for line in lines)
    assert any("system_changed at /messages/0/content: hex nonce" in line for line in lines)


def test_no_form_has_text_of_a_prompt_or_is_too_wide(report):
    lines = text_of(report)
    assert max(map(len, lines)) <= WIDTH
    for said in ("\n".join(lines), report.markdown(), str(record(report))):
        assert conversation.SECRET not in said
        assert "nonce-" not in said
        assert "wizards" not in said


def test_an_estimate_has_its_mark(report):
    assert any("~10,500" in line for line in text_of(report))
    assert "| ~10,500 | ok |" in report.markdown()
    assert record(report)["through"]["turns"][2]["expected"] == {"tokens": 10_500, "exact": False}


def test_no_difference_is_said_as_such(rules):
    same = reported(rules, AFTER, AFTER)
    assert same.verdict().startswith("No difference in the tokens to evaluate: prefill took 44.0 s")


def test_an_interrupted_replay_compares_what_both_passes_have(rules):
    cut = reported(rules, BEFORE, AFTER[:2], interrupted=True)
    assert text_of(cut)[0].startswith("Interrupted. ")
    assert any("the sums are those of 2 requests" in line for line in text_of(cut))
    begun = reported(rules, BEFORE[:1], [], interrupted=True)
    assert "did not start" in begun.verdict()
    assert text_of(begun)


def test_what_the_server_does_not_say_is_a_question_mark(rules):
    mute = reported(rules, [(None, None)] * 3, [(None, None)] * 3)
    (line,) = mute.problems()
    assert "no usage" in line
    assert any("?" in line for line in text_of(mute))
    assert not any("? ?" in line for line in text_of(mute))
    half = reported(rules, [(9, None)] * 3, [(9, None)] * 3)
    assert "--enable-prompt-tokens-details" in next(half.problems())
    assert not any("; 9 tokens" in line for line in text_of(half))


def test_a_failed_turn_is_told_without_what_the_server_said(rules):
    run = reported(rules, BEFORE, AFTER).run
    failed = {"status": 500, "usage": Usage(), "first_byte": None}
    failed["error"] = f"500 ({conversation.SECRET})"
    run.captured[1] = replace(run.captured[1], **failed)
    again = report_of(run)
    assert any("answered 500" in line for line in text_of(again))
    assert conversation.SECRET not in again.markdown()
    assert next(again.problems()).startswith("1 request failed, the first: 500")
    assert again.figures.compared == 2


def test_numbers_are_as_people_read_them():
    assert [seconds(number) for number in (0.084, 9.996, 59.96, 892, None)] == [
        "0.08 s",
        "10.0 s",
        "1 min 00 s",
        "14 min 52 s",
        "?",
    ]
    assert [times(2.81), times(22.4), share(None)] == [f"2.8{TIMES}", f"22{TIMES}", "?"]
