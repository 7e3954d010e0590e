"""Properties that are worked out once."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import pytest

from cacheproxy.core.document.lazy import Once


@dataclass(frozen=True)
class Square:
    side: int

    @Once
    def area(self) -> int:
        """Side by side."""
        worked.append(self.side)
        return self.side**2


worked: list[int] = []


def test_it_is_worked_out_once_for_each_object():
    """Also where the object is frozen, which it stays; equality asks nothing of it."""
    worked.clear()
    one, other = Square(2), Square(3)
    assert (one.area, other.area, one.area, one.area) == (4, 9, 4, 4)
    assert worked == [2, 3]
    assert Square(2) == one
    with pytest.raises(FrozenInstanceError):
        one.area = 5


def test_the_class_shows_what_it_is():
    """For documentation."""
    assert isinstance(Square.area, Once)
    assert Square.area.__doc__ == "Side by side."


def test_what_raises_is_asked_again():
    """Nothing is kept of a failure."""

    class Fails:
        @Once
        def value(self) -> int:
            attempts.append(1)
            raise ValueError("no")

    attempts: list[int] = []
    one = Fails()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            _ = one.value
    assert len(attempts) == 2
