"""The setting that a crowd needs at a llama-server, by the measured table."""

import re
from pathlib import Path

import pytest

from cacheproxy.core.kinds.crowds import MEASURED, SIMILARITIES, Crowd, CrowdSetting, setting_for
from cacheproxy.core.kinds.profile import Memory

MANUAL = (Path(__file__).parents[3] / "benchmarks" / "README.md").read_text("utf-8")
ONE, NINE, FIVE = "--parallel 1", "--slot-prompt-similarity 0.9", "--slot-prompt-similarity 0.5"
RAM = "--cache-ram 8192"
BY_TURNS, ALIKE, MAIN, START = Crowd.TURNS, Crowd.HEAD, Crowd.SUBAGENTS, Crowd.TOGETHER


def memory(slots, has_ram=True, *, unified=True):
    return Memory(slots=slots, has_ram=has_ram, is_unified=None if slots == 1 else unified)


@pytest.mark.parametrize(
    ("crowd", "server", "flags", "beside"),
    [
        # one slot: whoever is less alike than 0.9 is looked for in RAM, which must be there
        *((crowd, memory(1, ram), NINE, None) for crowd in Crowd if crowd is not START
          for ram in (True, None)),
        (BY_TURNS, memory(1, has_ram=False), f"{NINE} {RAM}", None),
        (START, memory(1), None, None),  # each has the head in turn already
        # several: fewer tokens with one, and what helps where they stay
        (BY_TURNS, memory(4), f"{ONE} {NINE}", NINE),
        (ALIKE, memory(4), f"{ONE} {NINE}", None),  # a high similarity costs there
        (MAIN, memory(4), f"{ONE} {NINE}", None),
        (MAIN, memory(2), f"{ONE} {NINE}", FIVE),
        (START, memory(4), f"{ONE} {NINE}", None),  # a head serves one request at a time
        (MAIN, memory(2, has_ram=False), f"{ONE} {NINE} {RAM}", f"{FIVE} {RAM}"),
        (BY_TURNS, memory(16), f"{ONE} {NINE}", NINE),
        # nothing is guessed
        (MAIN, memory(None), None, None),
        (MAIN, memory(4, unified=False), None, None),
    ],
)  # fmt: skip
def test_the_setting_for_a_crowd(crowd, server, flags, beside):
    setting = setting_for(crowd, server)
    assert (setting and setting.flags) == flags
    assert (setting and setting.beside and setting.beside[0]) == beside


def test_it_is_said_with_what_it_costs_and_what_nobody_knows():
    setting = CrowdSetting(ONE, 9_000, 3_000, memory(4, None, unified=None), (FIVE, 6_000))
    assert setting.text == (
        "--parallel 1: where it was measured, such a crowd evaluated 3,000 tokens instead of "
        "9,000, but requests wait for one another; with 4 slots as now, "
        "--slot-prompt-similarity 0.5: 6,000. (Defaults are assumed where no page tells: a "
        "similarity of 0.1, a RAM cache, one memory for all slots)"
    )
    setting = CrowdSetting(NINE, 9_000, 3_000, memory(1))
    assert setting.text == (
        "--slot-prompt-similarity 0.9: where it was measured, such a crowd evaluated 3,000 tokens "
        "instead of 9,000. (Defaults are assumed where no page tells: a similarity of 0.1)"
    )


def test_the_manual_shows_the_same_table():
    crowds = " | ".join(Crowd)
    assert f"| slots, `--cache-ram` | {crowds} |" in MANUAL
    assert " / ".join(map(str, SIMILARITIES)) in MANUAL
    row = re.compile(r"^ *\| (\d), (8192|0) \| (.*) \|$", re.MULTILINE)
    shown = {
        (int(slots), ram == "8192"): [
            tuple(int(each.replace(",", "")) for each in cell.split(" / "))
            for cell in cells.split(" | ")
        ]
        for slots, ram, cells in row.findall(MANUAL)
    }
    assert shown == {key: [*figures] for key, figures in MEASURED.items()}
