"""Request: frozen, and read lazily, once."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import pytest

from cacheproxy.core.prompt.request import Once
from tests import transcript


@dataclass(frozen=True)
class Square:
    side: int
    worked: ClassVar[list[int]] = []

    @Once
    def area(self) -> int:
        """Side by side."""
        self.worked.append(self.side)
        if self.side < 0:
            raise ValueError("no")
        return self.side**2


def test_a_value_is_worked_out_once_for_each_object():
    """Also where the object is frozen, which it stays; equality asks nothing of it."""
    one, other, wrong = Square(2), Square(3), Square(-1)
    assert (one.area, other.area, one.area, one.area) == (4, 9, 4, 4)
    assert Square.worked == [2, 3]
    assert Square(2) == one
    with pytest.raises(FrozenInstanceError):
        one.area = 5
    for _ in range(2):  # nothing is kept of a failure
        with pytest.raises(ValueError, match="no"):
            _ = wrong.area
    assert Square.worked == [2, 3, -1, -1]
    assert isinstance(Square.area, Once)  # for documentation
    assert Square.area.__doc__ == "Side by side."


def test_all_that_is_said():
    transcript.holds("request.txt", globals())
