"""Request: frozen, and read lazily, once."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import pytest

from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Once, Request


def test_a_body_is_read_once_and_not_until_asked():
    """Making a request, and asking for its head, parses nothing."""
    request = Request("POST", "/v1/messages?x=1?y", ((b"A", b"caf\xe9"), (b"a", b"2")), b'{"a": 1}')
    assert (request.path, request.dialect) == ("/v1/messages", MESSAGES)
    assert (request.header("a"), request.header("x-two")) == ("café", None)
    assert "document" not in request.__dict__
    assert request.json == {"a": 1}
    assert request.document is request.document
    assert request.not_understood is None
    other = request.with_text('{"a": "é"}')
    assert other == dataclasses.replace(request, body='{"a": "é"}'.encode())
    assert (other.json, request.json) == ({"a": "é"}, {"a": 1})


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{", b'{"a": 1} x', b"SECRET"])
def test_body_that_is_no_json_object_says_why_not(body):
    """The reason is a few words without the body's text."""
    found = Request("POST", "/", body=body)
    assert found.json is None
    assert found.not_understood
    assert "SECRET" not in found.not_understood


def test_looking_at_a_body_is_quick_where_a_memo_knows_most_of_it():
    """Else a thread has to read it; what was read on the way there is known by then."""
    body = json.dumps({"messages": ["text " * 99] * 99}).encode()
    plain = Request("POST", "/v1/messages", (), body)
    assert plain.is_quick(len(body))
    assert not plain.is_quick(len(body) - 1)
    known = Request("POST", "/v1/messages", (), body, Memo())
    assert not known.is_quick(len(body) // 99)
    assert not known.is_read
    assert known.json == json.loads(body)
    again = dataclasses.replace(known)
    assert again.is_quick(len(body) // 8)
    assert again.is_read
    assert not dataclasses.replace(known).is_quick(len(body) // 9)
    broken = dataclasses.replace(known, body=body[:-1])
    assert broken.is_quick(len(body) // 4)
    assert broken.not_understood


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


@pytest.mark.parametrize(("count", "size"), [(100, 9), (4, 2 << 20)])
def test_what_is_kept_of_a_request_stays_read_until_others_have_come(count, size):
    """What the turn before was read as is there for the next one, within a bound."""
    memo = Memo()
    bodies = [b'{"a": %d, "b": "%b"}' % (number, b"x" * size) for number in range(count)]
    kept = [Request("POST", "/v1/messages", (), body, memo).bare() for body in bodies]
    assert (kept[0].is_read, kept[-1].is_read) == (False, True)
    assert [one.json["a"] for one in kept] == list(range(count))


def test_a_large_body_does_not_stay_read():
    """It may take a gigabyte, and the next request may come tomorrow; small ones stay read."""
    memo = Memo()
    bodies = (b"{}", b'{"a": "%b"}' % (b"x" * (4 << 20)))
    small, large = (Request("POST", "/v1/messages", (), body, memo).bare() for body in bodies)
    assert (small.is_read, large.is_read) == (True, False)
