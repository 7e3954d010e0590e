"""The headers by which a router keeps a conversation at one server."""

from __future__ import annotations

import re

import pytest

from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.stamp import LENGTH, Stamp, StampError, root_key
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.fold import run
from cacheproxy.plugin.packages import Packages, choose

BARE = Request("POST", "/v1/messages")
SESSION = Session("claude", "s-1")
EMPTY = Request("POST", "/v1/messages", body=b"{}")
HASH = "0123456789abcdef"


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


def key(client: str, identity: str, *headers: tuple[bytes, bytes]) -> str:
    return root_key(Request("POST", "/v1/messages", headers), Session(client, identity))


def test_it_is_short_plain_and_tells_nothing():
    """What routers take; no id can be read in it."""
    found = key("claude", "4edf0c3a-1111-2222-3333-444455556666")
    assert re.fullmatch(r"[A-Za-z0-9]{32}", found)
    assert len(found) == LENGTH
    assert "4edf" not in found
    assert found == "0cf2b6363bcb07c29bbe072828ab7761"  # in every process, of every version


def test_clients_and_sessions_have_their_own():
    found = [key(*one) for one in (("a", "bc"), ("ab", "c"), ("a", "b"), ("a", "\ud83d"), ("", ""))]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("identity", "headers"),
    [("s:agent-1", ()), ("child", ((b"X-Parent-Session-Id", b"s"),)), ("s:a:b", ())],
)
def test_a_subagent_has_its_roots(identity, headers):
    """Claude Code and Codex name it behind a colon, opencode names the parent in a header."""
    assert key("c", identity, *headers) == key("c", "s")


def test_conversations_that_begin_alike_have_one():
    """Their number is what this proxy alone knows; a client's own name is never cut."""
    assert key("c", f"{HASH}-2") == key("c", f"{HASH}-17") == key("c", HASH)
    assert key("c", f"{HASH}-b") != key("c", HASH)
    assert key("c", "4edf0c3a-2") != key("c", "4edf0c3a")


def test_it_needs_no_body():
    assert root_key(EMPTY, session_of(EMPTY)) == root_key(EMPTY, session_of(EMPTY))


def test_all_turns_of_a_recorded_conversation_have_one_key(captured):
    """At one proxy that saw all of them, and at one that saw none before; subagents as well."""
    packages = Packages.load()
    plan = packages.plan(choose(packages.normalizers((), BUILT_IN), (), ()))
    several = {"claude-twosessions": 3, "openclaw-gateway": 2}  # its subagent names no parent
    seen: dict[str, str] = {}
    for name, requests in captured.items():
        store, keys = Store(), set()
        for request in requests:
            plan.clients.introduce(request)
            first, fresh = (run(prepare(request, plan, s)) for s in (store, Store()))
            if first.turn is None:
                continue
            place = store.begin(first.turn, first.request)
            store.end(first.turn.session, place, None)
            found = root_key(first.request, first.turn.session)
            assert found == root_key(fresh.request, fresh.turn.session), name
            keys.add(found)
        assert len(keys) == several.get(name, 0 if name == "gemini-resume" else 1), name
        seen |= dict.fromkeys(keys, name)
    assert len(seen) > 30
