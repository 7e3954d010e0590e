"""What a server does with late system messages, and what follows."""

import json

import pytest

from cacheproxy.core.kinds.placement import Late, Placement, Treatment, alike


@pytest.mark.parametrize("late", Late)
def test_three_of_them_do_harm(late):
    """Hoisting costs the history, a refusal the request, dropping the text."""
    harms = late in ("hoisted", "refused", "dropped")
    assert late.harms is harms
    placement = alike(late, "test")
    assert (placement.places, placement.late) == (harms, late)
    assert placement.moves("system", leads=False) is harms
    assert placement.moves("developer", leads=True) is harms
    assert ("the proxy sends them as user" in placement.text) is harms


def test_each_role_fares_by_itself_at_the_head_and_late():
    """One that is fine late may not be a second text at the head."""
    placement = Placement(
        Treatment(Late.INLINE, Late.REFUSED), Treatment(Late.DROPPED, Late.INLINE)
    )
    assert placement.places
    assert placement.late is Late.INLINE
    assert [
        placement.moves(role, leads=leads)
        for role in ("system", "developer")
        for leads in (True, False)
    ] == [True, False, False, True]


def test_for_a_page_it_is_plain_values():
    page = json.loads(json.dumps(alike(Late.HOISTED, "test", joins=True).as_dict()))
    assert page["late"] == "hoisted"
    assert page["told_by"] == "test"
    assert page["joins_user"] is page["joins_tool"] is True
    assert page["says"].startswith("moves late system messages to the head of the prompt: ")
