"""What a test prompt would push out, from what the slots and the record tell."""

from __future__ import annotations

import pytest

from cacheproxy.core.server.status import Slot
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.slots import at_stake, kept
from tests.doctor import builders

NEW = Slot(0, 65_536, 0, busy=False)


def used(number, task, held, *, busy=False):
    return Slot(number, 65_536, held, busy, task)


@pytest.mark.parametrize(
    ("slots", "tokens"),
    [
        ((), None),
        ((NEW,), 0),
        ((used(0, 5, 20_050),), 20_050),
        ((used(0, 5, 700),), 0),
        ((used(0, 5, 20_050, busy=True),), 20_050),
        ((NEW, used(1, 5, 20_050)), 0),
        ((used(0, 9, 700), used(1, 5, 20_050)), 20_050),
        ((used(0, 5, 700), used(1, 9, 20_050)), 0),
        ((used(0, 9, 30_000), used(1, 5, 20_050)), 20_050),
        ((used(0, 9, 700), used(1, 5, 0)), 0),
        ((used(0, 5, 0), used(1, 9, 20_050)), 0),
        ((NEW, used(1, 5, 40_000), used(2, 9, 24_000)), 40_000),
        ((used(0, 5, 700, busy=True), used(1, 9, 20_050)), 20_050),
    ],
)
def test_what_the_next_prompt_takes(slots, tokens):
    """Unused slots first, else the one used longest ago; short prompts are cheap."""
    assert at_stake(slots, keeps=False) == tokens
    assert at_stake(slots, keeps=True) == 0


def seen(number, session, turn, prompt, reused, **more):
    return builders.seen(number, turn, prompt, reused, session=session, seconds=0.5, **more)


MAIN = seen(1, "a", 1, 11_000, 0), seen(3, "a", 2, 11_200, 11_000)
TITLE = seen(2, "a", 1, 500, 7, side=True)


@pytest.mark.parametrize(
    ("between", "is_kept"),
    [
        (TITLE, True),
        (seen(2, "b", 1, 500, 7), True),
        (seen(2, "b", 1, 5_000, 4_500), False),
        (seen(2, "b", 1, 9_000, 7), False),
        (seen(2, "b", 1, 500, None), False),
        (seen(2, "b", 1, 500, 7, status=400), False),
        (seen(2, "b", 1, 500, 7, wall=2.9), False),
        (seen(2, "b", 1, 500, 7, wall=1.2), False),
    ],
)
def test_a_conversation_that_outlived_another_prompt_shows_the_ram_cache(between, is_kept):
    """Unless that prompt may have held what was reused, or was worked on at another time."""
    assert kept(Record((MAIN[0], between, MAIN[1])), 1) is is_kept


def test_nothing_is_shown_without_such_a_turn():
    """Nor by a server with more slots than one, nor by a turn that lost its conversation."""
    assert not kept(Record(MAIN), 1)
    assert not kept(None, 1)
    assert not kept(Record((MAIN[0], TITLE, MAIN[1])), 2)
    assert not kept(Record((MAIN[0], TITLE, seen(3, "a", 2, 11_200, 7))), 1)
