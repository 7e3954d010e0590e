"""The result in words."""

import io
import json

import pytest
from cacheproxy_demo.client import Cost
from cacheproxy_demo.report import DemoReport
from cacheproxy_demo.run import DemoOutcome, scenes
from rich.console import Console

from cacheproxy.core.conversation.usage import Usage


def cost(prompt, reused, wall=1.0):
    return Cost(Usage(prompt=prompt, reused=reused), wall)


REFUSED = Cost(Usage(), 0.1, 400)
COLD, AGAIN, WARM = cost(23_400, 0), cost(23_450, 36), cost(23_450, 23_400)
TOLD = {"says": "refuses late system messages: cured", "told_by": "/apply-template"}


def outcome(direct, through, place=2, placement=TOLD):
    scene = scenes(embedded=True)[place]
    return DemoOutcome(scene, scene.api, direct, through, placement)


STRICT = outcome((REFUSED, REFUSED), (COLD, WARM), place=0)
CCH = outcome((COLD, AGAIN), (COLD, WARM))


def report(*outcomes, **more):
    return DemoReport(list(outcomes or (STRICT, CCH)), "a server", **{"embedded": True, **more})


def text(report, width=96, **console):
    return report.text(Console(file=io.StringIO(), width=width, highlight=False, **console))


def test_the_verdict_comes_first():
    through, direct, empty = text(report()).splitlines()[:3]
    assert through == (
        "Through cacheproxy all 4 requests were answered, and 100.0% of what could be reused was."
    )
    assert direct == (
        "Directly 2 of 4 were refused, and the rest evaluated 46,814 prompt tokens instead of "
        "23,450."
    )
    assert empty == ""


def test_each_pass_of_each_scene_is_a_line_with_reused_and_new_together():
    lines = [" ".join(line.split()) for line in text(report()).splitlines()]
    at = lines.index("Claude Code 2.1.280, /v1/messages: the template refuses its system messages")
    assert lines[at + 1] == "directly 2 of 2 refused: HTTP 400"
    assert lines[at + 2] == "through cacheproxy 2 23,400 100.0% 23,450 2.00 s"
    assert "directly 2 36 0.2% 46,814 2.00 s" in lines


def test_minutes_do_not_touch_the_tokens_before_them():
    slow = outcome((cost(23_400, 0, 1830.0), cost(23_450, 36, 1830.0)), (COLD, WARM))
    assert "46,814  61 min 00 s" in text(report(slow))


def test_no_difference_is_said_so_whatever_the_seconds_waver():
    slow, quick = (cost(100, 0, 9.0), cost(120, 90, 9.0)), (cost(100, 0), cost(120, 90))
    assert report(outcome(slow, quick)).verdict()[1] == "Directly it is no worse here."


def test_what_the_proxy_could_not_help_is_told():
    (through, direct) = report(outcome((REFUSED, REFUSED), (REFUSED, COLD))).verdict()
    assert through == "Through cacheproxy 1 of 2 requests were refused."
    assert direct == "Directly 2 of 2 were refused."


def test_an_upstream_that_does_not_say_what_it_reused_is_judged_by_seconds():
    silent = report(outcome((cost(9, None, 4.0),) * 2, (cost(9, None),) * 2))
    assert silent.verdict() == [
        "Through cacheproxy all 2 requests were answered.",
        "Directly the server took 8.00 s instead of 2.00 s.",
    ]
    assert "?" in text(silent)
    assert "does not say what it reused" in text(silent)


def test_what_the_users_own_server_does_with_late_messages_is_told():
    assert "the server refuses late system messages: cured (told by /apply-template)" in " ".join(
        text(report(embedded=False)).split()
    )
    unknown = outcome((COLD, AGAIN), (COLD, WARM), placement={})
    assert "does not show what it does" in text(report(unknown, embedded=False))


def test_a_remote_upstream_and_one_that_reuses_nothing_are_told():
    assert "--edit-remote" in text(report(embedded=False, edit_remote=True))
    idle = text(report(outcome((COLD, COLD), (COLD, COLD))))
    assert "prompt cache on" in " ".join(idle.split())
    assert "prompt cache on" not in " ".join(text(report()).split())


def test_plain_text_has_no_escape_codes_and_fits_the_console():
    assert "\x1b" not in text(report())
    assert max(map(len, text(report()).splitlines())) <= 96
    assert "\x1b" in text(report(), force_terminal=True, color_system="standard")


def test_json_has_every_turn_of_both_passes_and_their_totals():
    value = json.loads(json.dumps(report().json()))
    strict, cch = value["scenes"]
    assert strict["placement"] == TOLD
    assert strict["direct"]["total"]["refused"] == 2
    assert [turn["turn"] for turn in cch["through"]["turns"]] == [1, 2]
    assert cch["direct"]["turns"][1] == {
        "turn": 2,
        "prompt": 23_450,
        "reused": 36,
        "evaluated": 23_414,
        "seconds": 1.0,
        "refused": None,
    }
    assert cch["through"]["total"]["reused"] == 23_400
    assert cch["direct"]["total"]["share"] == pytest.approx(36 / 23_400)
