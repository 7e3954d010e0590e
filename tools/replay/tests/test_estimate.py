"""What could be reused, where no server lends its tokenizer; and the verdict."""

from dataclasses import replace

import pytest
from cacheproxy_replay.estimate import Expected, figures

from cacheproxy.core.conversation.verdict import Sign
from tests.conversation import assessed, turns


def test_a_prompt_that_goes_on_may_reuse_all_of_the_one_before(rules):
    usages = [(1000, 0), (1050, 1000), (1100, 1050)]
    found = assessed(turns(rules, usages, through=True))
    assert [one.expected for one in found] == [None, Expected(1000, False), Expected(1050, False)]
    assert [one.verdict.judgement for one in found] == ["cold", "ok", "ok"]


def test_a_prompt_that_parts_early_may_reuse_little(rules):
    first, second = assessed(turns(rules, [(1000, 0), (1050, 3)], through=False))
    assert first.expected is None
    assert 0 < second.expected.tokens < 20
    assert (second.verdict.judgement, second.verdict.reason) == ("BREAK", "system_changed")
    assert second.verdict.where.path == "/messages/0/content"


def test_equal_prompts_that_were_not_reused_are_not_explained(rules):
    _, second = assessed(turns(rules, [(1000, 0), (1050, 0)], through=True))
    verdict = second.verdict
    assert (verdict.judgement, verdict.reason, verdict.evidence) == ("BREAK", "unknown", ())
    assert verdict.ruled_out[1:] == ("no other conversation came through this proxy in between",)
    assert second.error is None


def test_another_conversation_in_between_is_evidence_of_an_eviction(rules):
    """Where the turn before had been reused."""
    usages = [(1000, 0), (1050, 1000), (1100, 0), (1150, 1100)]
    mine = turns(rules, usages, through=True)
    (theirs,) = turns(rules, [(1000, 0)], through=True)
    theirs = replace(theirs, session=theirs.session._replace(id="another"))
    found = assessed([*mine[:2], theirs, *mine[2:]])
    assert [one.verdict.judgement for one in found] == ["cold", "ok", "cold", "BREAK", "ok"]
    verdict = found[3].verdict
    assert (verdict.reason, verdict.evidence) == ("evicted", (Sign.OTHERS,))


def test_sums_are_those_of_the_turns_both_passes_have(rules):
    before = [(1000, 0, 1, 2.0), (1050, 10, 1, 2.0), (1100, 10, 1, 3.0)]
    after = [(1000, 0, 1, 2.0), (1050, 1000, 1, 0.25)]
    found = figures(
        assessed(turns(rules, before, through=False)), assessed(turns(rules, after, through=True))
    )
    assert (found.compared, found.server_time) == (2, True)
    assert [total.prompt for total in found.totals] == [2050, 2050]
    assert [total.evaluated for total in found.totals] == [2040, 1050]
    assert found.faster == pytest.approx(4 / 2.25)
    assert found.through[1].error == 0


def test_reuse_that_the_pass_does_not_explain_is_not_cold(rules):
    rows = assessed(turns(rules, [(1000, 900), (1050, 1000)], through=True))
    assert figures(rows, rows[:0]).warm == [1]
