"""goose's sessions; what it pins: tests/test_client_pins.py."""

from cacheproxy_goose import cacheproxy_session

from cacheproxy.testing import conversation


def test_the_session_is_that_of_the_header():
    """None without it: then the prompt tells, as for any client."""
    for headers, session in (({"agent-session-id": "20261122_7"}, "20261122_7"), ({}, None)):
        turn = conversation("/v1/chat/completions", "You are.", "hello", headers=headers)
        assert cacheproxy_session(turn) == session
