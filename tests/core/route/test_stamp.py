"""The headers by which a router keeps a conversation at one server."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.key import root_key
from cacheproxy.core.route.stamp import Stamp, StampError

BARE = Request("POST", "/v1/messages")
SESSION = Session("claude", "s-1")


def test_each_name_carries_the_key():
    key = root_key(BARE, SESSION).encode()
    stamp = Stamp(("X-Session-ID", "X-SMG-Routing-Key"))
    assert stamp.headers(BARE, SESSION) == ((b"X-Session-ID", key), (b"X-SMG-Routing-Key", key))


def test_what_the_client_sent_stays():
    """Under its name alone; an empty value is a value."""
    said = Request("POST", "/v1/messages", ((b"x-session-id", b""),))
    assert [name for name, _ in Stamp(("X-Session-ID", "X-Y")).headers(said, SESSION)] == [b"X-Y"]
    assert Stamp(("X-Session-ID",)).headers(said, SESSION) == ()


def test_without_names_or_a_conversation_there_is_nothing():
    assert Stamp().headers(BARE, SESSION) == ()
    assert Stamp(("X-Session-ID",)).headers(BARE, None) == ()


@pytest.mark.parametrize("name", ["", "a b", "X-é", "a:b", "a\r\nb", "x" * 65])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(StampError, match="is not the name of a header, like X-Session-ID"):
        Stamp((name,))


@pytest.mark.parametrize("name", ["Host", "content-length", "Authorization", "Via", "TE"])
def test_a_name_that_means_something_else_is_refused(name):
    with pytest.raises(StampError, match=f"'{name}' already has another meaning"):
        Stamp((name,))
