"""Exchange: one frozen record, changed only by making another."""

from dataclasses import FrozenInstanceError, replace

import pytest

from tests.observe.exchanges import body, exchange


def test_a_changed_exchange_is_as_dataclasses_would_have_it():
    """And the one that it was made of stays what it was."""
    before = exchange(body("a"))
    after = before.changed(number=7, side=True)
    assert after == replace(before, number=7, side=True)
    assert (before.number, before.side) == (0, False)
    assert after.changed(number=0, side=False) == before


def test_it_is_frozen_also_when_changed():
    with pytest.raises(FrozenInstanceError):
        exchange(body("a")).changed(number=7).number = 8


def test_a_name_that_is_no_field_is_refused():
    with pytest.raises(TypeError):
        exchange(body("a")).changed(nummer=7)
