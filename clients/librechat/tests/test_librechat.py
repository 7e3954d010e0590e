"""LibreChat's sessions; what it pins: tests/test_client_pins.py."""

from cacheproxy.core.conversation.session import session_of
from cacheproxy.testing import conversation


def test_the_header_names_the_session():
    """As any header ``x-…-session-id`` does."""
    header = {"X-LibreChat-Session-Id": "5db5fafd"}
    turn = conversation("/v1/chat/completions", "You are.", "hello", headers=header)
    assert session_of(turn).id == "5db5fafd"
