"""Each upstream's latest status."""

import re

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.observe.recent import Latest, line

from .exchanges import exchange, look


def test_what_was_seen_of_others_is_forgotten():
    """When the configuration names other upstreams."""
    latest = Latest()
    for url in ("http://a", "http://b"):
        latest.looks[url] = look(url=url)
    latest.keep(("http://b", "http://c"))
    assert list(latest.looks) == ["http://b"]


NOW = 1_700_000_000.0


class Running(Latest):
    """Told of exchanges by their numbers."""

    def __init__(self):
        super().__init__()
        self.exchanges = {}

    def tell(self, number, seconds, done=2048, total=11_000, client="claude"):
        """One has run for so long; None: it is over."""
        one = self.exchanges.setdefault(number, exchange({}, turn=14))
        one.session = Session(client, "3f9a77")
        one.wall = NOW - (seconds or 0)
        self(one, Progress(done, total) if total else None, seconds)


def test_the_line():
    said = r"\d\d:\d\d:\d\d agent/3f9a77 #14   prefill 2,048 of 11,000 tokens \(19%\) after 6s"
    one = exchange({}, session="3f9a77", turn=14)
    assert re.fullmatch(said, line(one, Progress(2048, 11_000), 6.2))
    assert re.fullmatch(f"{said}, ~1,300s to go", line(one, Progress(2048, 11_000), 6.2, 1284.0))
    assert line(one, Progress(2048, 11_000), 6.2, 2.64).endswith("~3s to go")


def test_a_short_prefill_has_no_line(logged):
    prefills = Running()
    for seconds in (0.1, 1.0, 4.9):
        prefills.tell(1, seconds)
    prefills.tell(1, None)
    prefills.tell(1, 0.1)
    assert not logged


def test_a_long_one_has_a_line_and_then_one_a_minute(logged):
    prefills = Running()
    for second in range(150):
        prefills.tell(1, float(second))
    assert [each.rpartition(" ")[2] for each in logged] == ["5s", "65s", "125s"]
    prefills.tell(2, 9.0)
    assert len(logged) == 4


def test_a_key_in_a_name_is_not_logged(logged):
    prefills = Running()
    key = "sk-ant-api03-" + "k" * 40
    prefills.tell(1, 9.0, client=key)
    assert key not in logged[0]
    assert key not in str(prefills.as_json(NOW))


def test_a_server_that_does_not_say_how_far_it_is_has_no_line(logged):
    """Its request is shown as one that runs."""
    prefills = Running()
    prefills.tell(1, 9.0, total=0)
    (shown,) = prefills.as_json(NOW + 1)
    assert (shown["done"], shown["total"], shown["seconds"]) == (None, None, 10.0)
    assert not logged


def test_those_that_run_are_shown_until_they_are_over():
    """The longest first; who shows them is told of each change."""
    prefills = Running()
    prefills.tell(1, 1.0)
    prefills.tell(2, 3.0, 5, 9, "pi")
    first, second = prefills.as_json(NOW)
    assert first == {
        "session": "pi/3f9a77",
        "conversation": "pi/3f9a77",
        "turn": 14,
        "done": 5,
        "total": 9,
        "seconds": 3.0,
        "to_go": None,
        "held": False,
        "waits_for": "",
    }
    assert (second["session"], second["done"], second["total"]) == ("claude/3f9a77", 2048, 11_000)
    prefills.tell(2, None)
    assert [each["session"] for each in prefills.as_json(NOW)] == ["claude/3f9a77"]
    assert prefills.changes == 3


def to_go(prefills):
    (shown,) = prefills.as_json(NOW)
    return shown["to_go"]


def test_the_seconds_to_go_follow_from_what_this_prompt_took():
    """As each thousand tokens took more than the one before, so will the next."""
    prefills = Running()
    prefills.tell(1, 10.0, 0, 4000)  # it had waited for a slot
    assert to_go(prefills) is None
    prefills.tell(1, 20.0, 1000, 4000)
    assert to_go(prefills) == pytest.approx(30.0)
    prefills.tell(1, 40.0, 2000, 4000)
    assert to_go(prefills) == pytest.approx(70.0)
    prefills.exchanges[1].wall -= 50
    assert to_go(prefills) == pytest.approx(20.0)
    prefills.exchanges[1].wall -= 50
    assert to_go(prefills) == 0.0


def test_what_a_retry_is_told_at_once_is_no_speed():
    prefills = Running()
    for done in (0, 1000, 2000, 3000):
        prefills.tell(1, 5.0 + done / 1e6, done, 8000)
    assert to_go(prefills) is None
    prefills.tell(1, 15.0, 4000, 8000)
    assert to_go(prefills) == pytest.approx(40.0, rel=0.01)


def test_of_thousands_those_that_run_longest_are_shown(logged):
    prefills = Running()
    for number in range(1000):
        prefills.tell(number, number / 1000, total=0)
    assert {each["seconds"] > 0.74 for each in prefills.as_json(NOW)} == {True}
    assert len(prefills.as_json(NOW)) == 256
    prefills.tell(999, 9.0)
    assert len(logged) == 1
    for number in range(1000):
        prefills.tell(number, None)
    assert prefills.as_json(NOW) == []
