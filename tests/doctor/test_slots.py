"""What slots cost, from the record and from our own prompts."""

from __future__ import annotations

import pytest

from cacheproxy.doctor import slots
from cacheproxy.doctor.finding import FindingState
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.reuse import Trial
from tests.doctor import builders


def seen(number, session, turn, prompt, reused, reason=""):  # noqa: PLR0917 (a table)
    verdict = "BREAK" if reason else "ok"
    return builders.seen(number, turn, prompt, reused, verdict, reason=reason, session=session)


# as the real server had it: four slots, unified, a RAM cache (see cacheproxy.doctor.slots)
TURNS = (
    seen(4, "3f9a", 2, 14_396, 14_071),
    seen(5, "3f9a:a1", 1, 4_985, 4_535),
    seen(6, "3f9a", 3, 14_695, 4_525, "evicted"),
)


def test_a_fork_that_took_the_slot():
    """The turn after it has no more than the two share."""
    (found,) = slots.check(Record(TURNS), ())
    assert (found.name, found.state) == ("slots", FindingState.WARN)
    assert "1 time" in found.text
    assert "9,871 tokens were read again" in found.text
    assert found.fix == "start llama-server with --slot-prompt-similarity 0.5"


def test_a_title_that_took_the_slot():
    """It shares nothing: then what was lost was not kept in RAM."""
    title = seen(5, "77b0", 1, 500, 7)
    lost = seen(6, "3f9a", 3, 14_695, 7, "evicted")
    (found,) = slots.check(Record((TURNS[0], title, lost)), ())
    assert (found.name, found.state) == ("cache-ram", FindingState.WARN)
    assert found.text.endswith("1 turn read 14,389 tokens again")
    assert found.fix == "start llama-server with --cache-ram 8192"


@pytest.mark.parametrize("turns", [(), TURNS[:2], (*TURNS[:2], seen(6, "3f9a", 3, 14_695, 14_396))])
def test_turns_that_lost_nothing(turns):
    """Nothing is advised."""
    assert slots.check(Record(turns), ()) == []
    assert slots.check(None, ()) == []


def test_a_turn_that_changed_its_own_prompt_is_no_matter_of_slots():
    """Whoever ran beside it."""
    changed = seen(6, "3f9a", 3, 14_695, 4_525, "system_changed")
    assert slots.check(Record((*TURNS[:2], changed)), ()) == []


@pytest.mark.parametrize(("reused", "state"), [(639, FindingState.OK), (33, FindingState.WARN)])
def test_our_own_prompt_that_came_back_or_not(reused, state):
    """On a server with one slot it proves the RAM cache, or that there is none."""
    trial = Trial("/v1/messages", through_proxy=True, again=builders.shot(reused))
    (found,) = slots.check(None, [trial])
    assert (found.name, found.state) == ("cache-ram", state)
