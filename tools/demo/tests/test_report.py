"""The result in words (report.txt)."""

import io
import json
from pathlib import Path

import pytest
from cacheproxy_demo.client import Cost
from cacheproxy_demo.report import DemoReport
from cacheproxy_demo.run import DemoOutcome, scenes
from rich.console import Console

from cacheproxy.core.conversation.usage import Usage
from tests import golden


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


REPORTS = {
    "both scenes": report(),
    "minutes": report(outcome((cost(23_400, 0, 1830.0), cost(23_450, 36, 1830.0)), (COLD, WARM))),
    "no difference but in seconds": report(
        outcome((cost(100, 0, 9.0), cost(120, 90, 9.0)), (cost(100, 0), cost(120, 90)))
    ),
    "what the proxy could not help": report(outcome((REFUSED, REFUSED), (REFUSED, COLD))),
    "a server that does not say what it reused": report(
        outcome((cost(9, None, 4.0),) * 2, (cost(9, None),) * 2)
    ),
    "the user's own": report(embedded=False),
    "the user's own, of which nothing is known": report(
        outcome((COLD, AGAIN), (COLD, WARM), placement={}), embedded=False
    ),
    "a remote one": report(embedded=False, edit_remote=True),
    "one that reuses nothing": report(outcome((COLD, COLD), (COLD, COLD))),
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_it_says(name):
    """The verdict comes first; each pass of each scene is a line, with reused and new together."""
    said = text(REPORTS[name])
    golden.agrees(Path(__file__).with_name("report.txt"), name, said)
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) <= 96


def test_colours_are_for_a_terminal():
    assert "\x1b" in text(report(), force_terminal=True, color_system="standard")


def test_json_has_every_turn_of_both_passes_and_their_totals():
    value = json.loads(json.dumps(report().json()))
    strict, cch = value["scenes"]
    assert strict["placement"] == TOLD
    assert strict["direct"]["total"]["refused"] == 2
    assert [turn["turn"] for turn in cch["through"]["turns"]] == [1, 2]
    figures = {"prompt": 23_450, "reused": 36, "evaluated": 23_414, "seconds": 1.0}
    assert cch["direct"]["turns"][1] == {"turn": 2, **figures, "refused": None}
    assert cch["through"]["total"]["reused"] == 23_400
    assert cch["direct"]["total"]["share"] == pytest.approx(36 / 23_400)
