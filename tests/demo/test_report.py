"""The result in words."""

import io
import json

import pytest
from rich.console import Console

from cacheproxy.core.usage import Usage
from cacheproxy.demo.client import Cost
from cacheproxy.demo.conversation import load
from cacheproxy.demo.figures import figures
from cacheproxy.demo.report import TIMES, Report
from cacheproxy.demo.run import Passes, Plan


def cost(prompt, reused, seconds):
    return Cost(Usage(prompt=prompt, reused=reused, prompt_seconds=seconds), 1.0)


COLD = cost(23_400, 0, 4.5)
PASSES = Passes(direct=(COLD, cost(23_450, 36, 4.5)), through=(COLD, cost(23_450, 23_400, 0.3)))


def report(passes=PASSES, api="chat", **more):
    return Report(Plan(load(), api, 2), "a server", figures(passes), **{"embedded": True, **more})


def text(report, width=96, **console):
    return report.text(Console(file=io.StringIO(), width=width, highlight=False, **console))


def test_the_verdict_comes_first_tokens_before_seconds():
    tokens, seconds, empty = text(report()).splitlines()[:3]
    new = "23,450 through cacheproxy, 46,814 directly"
    assert tokens == f"2.0{TIMES} fewer prompt tokens to evaluate: {new}."
    took = "4.80 s through cacheproxy, 9.00 s directly"
    assert seconds == f"1.9{TIMES} faster prefill, 15{TIMES} from turn 2 on: {took}."
    assert empty == ""


def test_reused_and_new_stand_together_for_each_turn_and_in_all():
    lines = text(report()).splitlines()
    turn = next(line for line in lines if line.split()[:1] == ["2"])
    assert " ".join(turn.split()) == "2 23,450 36 0.2% 23,414 4.50 s 23,400 99.8% 50 0.30 s"
    assert any(line.split()[:2] == ["all", "46,850"] for line in lines)


def test_no_difference_is_said_so_whatever_the_seconds_waver():
    slow, quick = cost(100, 0, 2.0), cost(100, 0, 1.0)
    assert report(Passes((slow,), (quick,))).verdict()[0].startswith("No difference:")


def test_messages_tells_of_llama_cpps_own_repair():
    assert "overwrites a five-character cch" in text(report(api="messages"))
    assert "overwrites" not in text(report())


def test_an_upstream_that_does_not_say_what_it_reused_leaves_question_marks():
    unknown = text(report(Passes((cost(9, None, 2.0),), (cost(9, None, 1.0),))))
    assert "?" in unknown
    assert "does not say what it reused" in unknown


def test_a_warm_start_and_a_remote_upstream_are_told():
    warm = Passes((cost(100, 90, 1.0),), (COLD,))
    assert "not cold" in text(report(warm))
    assert "--edit-remote" in text(report(embedded=False, edit_remote=True))


def test_a_server_that_reuses_nothing_at_all_is_told():
    assert "prompt cache on" in text(report(Passes((COLD, COLD), (COLD, COLD))))
    assert "prompt cache on" not in text(report())


def test_plain_text_has_no_escape_codes_and_colour_adds_nothing_else():
    assert "\x1b" not in text(report())
    assert "\x1b" in text(report(), force_terminal=True, color_system="standard")


def test_json_has_every_turn_of_both_passes_and_their_totals():
    value = json.loads(json.dumps(report().json()))
    assert [turn["turn"] for turn in value["through"]["turns"]] == [1, 2]
    assert value["direct"]["turns"][1] == {
        "turn": 2,
        "prompt": 23_450,
        "reused": 36,
        "evaluated": 23_414,
        "seconds": 4.5,
        "wall": 1.0,
    }
    assert value["through"]["total"]["reused"] == 23_400
    assert value["ratio"]["seconds"] == pytest.approx(9.0 / 4.8)
