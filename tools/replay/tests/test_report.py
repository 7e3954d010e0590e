"""What a replay says: no prompt text, no wider than 96, the same in each form (report.txt)."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from cacheproxy_replay import Via
from cacheproxy_replay.estimate import figures
from cacheproxy_replay.plan import plan
from cacheproxy_replay.report import TIMES, WIDTH, ReplayReport, record, times
from cacheproxy_replay.run import ReplayRun

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.http_client import Site
from cacheproxy.words import seconds, share
from tests import conversation, golden
from tests.conversation import assessed, turns

BEFORE = [(10_000, 0, 1, 40.0), (10_500, 30, 1, 41.0), (11_000, 30, 1, 44.0)]
AFTER = [(10_000, 0, 1, 40.0), (10_500, 10_000, 1, 2.0), (11_000, 10_500, 1, 2.0)]
FAILED = {"status": 500, "usage": Usage(), "first_byte": None}
CASES = {
    "the gain": (BEFORE, AFTER),
    "no difference": (AFTER, AFTER),
    "interrupted": (BEFORE, AFTER[:2]),
    "interrupted early": (BEFORE[:1], []),
    "no usage": ([(None, None)] * 3, [(None, None)] * 3),
    "no reuse told": ([(9, None)] * 3, [(9, None)] * 3),
    "a failed turn": (BEFORE, AFTER),
}


def reported(rules, name):
    before, after = CASES[name]
    run = ReplayRun(plan(conversation.captured(turns=3)), Site("http://x:1"), rules, via=Via.RULES)
    run.captured = turns(rules, before, through=False)
    run.through = turns(rules, after, through=True)
    if name == "a failed turn":
        said = FAILED | {"error": f"500 ({conversation.SECRET})"}
        run.captured[1] = replace(run.captured[1], **said)
    found = figures(*map(assessed, run.passes))
    options = {"interrupted": True} if "interrupted" in name else {}
    order = PromptOrder.SYSTEM_FIRST
    return ReplayReport(run, found, "a server", order, None, ("a.har",), **options)


@pytest.mark.parametrize("name", CASES)
def test_what_it_says(rules, name):
    """The verdict is the ratio, both sides are in the table, an estimate has its mark."""
    report = reported(rules, name)
    lines = [line for line, _ in report.text("2026-11-21")]
    problems = [f"! {one}" for one in report.problems()]
    said = [report.verdict(), *problems, "", *lines, "", report.markdown()]
    shown = "\n".join(said).replace(conversation.SECRET, "SECRET", 1 if problems else 0)
    shown = re.sub(r"(?<=  rules      ).*?; applied", "…; applied", shown, flags=re.DOTALL)
    golden.agrees(Path(__file__).with_name("report.txt"), name, shown)
    assert max(map(len, lines)) <= WIDTH
    for text in ("\n".join(lines), report.markdown(), str(record(report))):
        assert conversation.SECRET not in text or text.startswith("{")
        assert "nonce-" not in text
        assert "wizards" not in text


def test_the_record_has_the_estimates(rules):
    found = record(reported(rules, "the gain"))
    assert found["through"]["turns"][2]["expected"] == {"tokens": 10_500, "exact": False}
    assert conversation.SECRET not in str(found)


def test_numbers_are_as_people_read_them():
    assert [seconds(number) for number in (0.084, 9.996, 59.96, 892, None)] == [
        "0.08 s",
        "10.0 s",
        "1 min 00 s",
        "14 min 52 s",
        "?",
    ]
    assert [times(2.81), times(22.4), share(None)] == [f"2.8{TIMES}", f"22{TIMES}", "?"]
