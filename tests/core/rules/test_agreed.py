"""Which messages a pin may edit."""

from __future__ import annotations

from cacheproxy import Rule
from cacheproxy.core.rules.fold import normalize
from cacheproxy.testing import request


def test_a_pin_edits_no_message_that_the_request_before_does_not_have():
    """There the same field may be another conversation's (law 10); the system text is one."""
    pin = Rule("pin", ("/system", "user"), r"at (?P<volatile>\d)", pin=True)
    one, other = (
        request(
            {
                "system": f"at {digit}",
                "messages": [{"role": "user", "content": f"{digit} at {digit}"} for _ in range(3)],
            }
        )
        for digit in "12"
    )
    sent = normalize(other.agreeing(1), [pin], one).request.json
    assert sent["system"] == "at 1"
    assert [each["content"] for each in sent["messages"]] == ["2 at 1", "2 at 2", "2 at 2"]
