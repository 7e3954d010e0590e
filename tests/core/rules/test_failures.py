"""How often each rule or hook failed, by name."""

from __future__ import annotations

import json

from cacheproxy.core.rules.failures import Failures


def test_each_name_has_counts_of_its_own():
    """In the order of their names, as plain values; nobody is listed without cause."""
    failures = Failures()
    assert failures.as_dict() == {}
    failures.of("b").failed += 1
    failures.of("a").timed_out += 1
    failures.of("a").dropped += 3
    failures.of("b").failed += 1
    failures.of("b").left_out = True
    assert json.dumps(failures.as_dict()) == json.dumps(
        {
            "a": {"failed": 0, "timed_out": 1, "dropped": 3, "left_out": False},
            "b": {"failed": 2, "timed_out": 0, "dropped": 0, "left_out": True},
        }
    )
