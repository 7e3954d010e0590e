"""Recorded Cline sessions: every turn extends the one before, over midnight too.

They were recorded within a day. For those over midnight the later turns get the next date.
"""

import cacheproxy_cline
import pytest
from cacheproxy_cline import CLIENT

from cacheproxy.testing import (
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
    rules_of,
)

CAPTURES = find_captures("cline*.jsonl", __file__)
RULES = rules_of(cacheproxy_cline)
DATES = (b"2. Date: 11/21/2026", b"2. Date: 11/22/2026")
NOTE = rb"\n\n<system-reminder>\nToday's date is now 11/22/2026.\n</system-reminder>"


@pytest.mark.parametrize("path", CAPTURES, ids=capture_name)
@pytest.mark.parametrize("midnight", [1, 2, 3])
def test_every_turn_extends_the_one_before(path, midnight):
    """The first date stays, and the next one is told once: nothing else changes."""
    turns = load_capture(path)
    assert all(CLIENT.sent(one) and one.body.count(DATES[0]) == 1 for one in turns)
    assert parted(turns) == {}
    late = [one.with_body(one.body.replace(*DATES)) for one in turns[midnight:]]
    over = [*turns[:midnight], *late]
    assert list(parted(over)) == [midnight] * bool(late)
    assert parted(over, RULES) == {}
    previous = None
    for one, plain in zip(over, turns, strict=True):
        previous = normalized(RULES, one, previous)
        assert previous.body.replace(NOTE, b"") == plain.body
    users = [message["role"] == "user" for message in previous.json["messages"]]
    assert previous.body.count(NOTE) == (sum(users) > 1)
