"""The key by which a conversation stays at one server."""

from __future__ import annotations

import re

import pytest

from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.key import LENGTH, root_key
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.fold import run
from cacheproxy.plugin.packages import Packages, choose

BARE = Request("POST", "/v1/messages", body=b"{}")
HASH = "0123456789abcdef"


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
    assert root_key(BARE, session_of(BARE)) == root_key(BARE, session_of(BARE))


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
