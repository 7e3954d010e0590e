"""The bodies that came last are found again, in bounded memory."""

from __future__ import annotations

import json

from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange import earlier as module
from cacheproxy.proxy.exchange.earlier import Earlier


def request(*texts, session="s", agent="agent/1", system="You are. " * 50, path="/v1/messages"):
    headers = ((b"User-Agent", agent.encode()),)
    if session is not None:
        headers += ((b"X-Session-Id", session.encode()),)
    body = {"messages": list(texts), "system": system}
    return Request("POST", path, headers, json.dumps(body).encode())


def come(earlier, request):
    """What happens to each request; returns how much of it had to be scanned."""
    closest = earlier.closest(request)
    request.after(closest.shared)
    assert request.json == json.loads(request.body)
    earlier.keep(request, closest)
    return request.document.scanned


def test_a_turn_is_read_with_the_one_before():
    """By its session's header."""
    earlier = Earlier()
    assert come(earlier, first := request("a" * 1000)) == len(first.body)
    assert come(earlier, request("a" * 1000, "b")) < 20
    assert come(earlier, other := request("a" * 1000, "b", session="t")) == len(other.body)
    assert come(earlier, request("a" * 1000, "b", "c")) < 20


def test_without_a_session_header_the_client_is_known_by_its_name():
    """And by the API it speaks."""
    earlier = Earlier()
    come(earlier, request("a", session=None))
    assert come(earlier, request("a", "b", session=None)) < 20
    assert earlier.closest(request("a", session=None, agent="other/1")).shared is None
    assert earlier.closest(request("a", session=None, path="/v1/chat/completions")).shared is None


def test_requests_that_come_beside_a_conversation_do_not_take_its_place():
    """Each of a few goes on from its own last one."""
    earlier = Earlier()
    main, title, agent = ["main"], ["Write a title"], ["task"]
    for turn in range(5):
        for texts, system in ((main, "m" * 5000), (title, "t" * 100), (agent, "s" * 2000)):
            scanned = come(earlier, request(*texts, system=system))
            assert scanned > 100 if not turn else scanned < 30
            texts.append(f"more {turn}")


def test_two_agents_with_much_in_common_are_told_apart():
    """They have the same system text and tools, which are most of the body."""
    earlier = Earlier()
    for turn in range(1, 4):
        for name in ("main", "agent"):
            texts = [f"{name} {number} " * 50 for number in range(turn)]
            scanned = come(earlier, request(*texts, system="m" * 2000))
            assert turn == 1 or scanned < 600


def test_of_many_the_last_ones_are_kept():
    """One conversation does not fill the memory."""
    earlier = Earlier()
    for number in range(10):
        come(earlier, request(str(number), system=f"{number}" * 1000))
    cost = request("0", system="0" * 1000)
    assert earlier.bytes_kept < (module._EACH + 1) * cost.document.cost
    assert sum(earlier.closest(request("9", "b", system="9" * 1000)).shared[1:]) > 1000
    assert earlier.closest(request("0", "b", system="0" * 1000)).shared is None


def test_memory_is_bounded_and_the_least_recently_used_go_first():
    """By what documents cost, of which tiny values are the most."""
    earlier = Earlier(most_bytes=100_000)
    tiny = [[] for _ in range(300)]
    for number in range(50):
        come(earlier, request(tiny, session=str(number)))
        come(earlier, request("a", session="first"))
        assert earlier.bytes_kept <= 100_000
    assert earlier.closest(request("a", session="first")).shared is not None
    assert earlier.closest(request(tiny, session="0")).shared is None
    assert earlier.closest(request(tiny, session="49")).shared is not None
    kept = [document for known in earlier._known.values() for document in known]
    assert earlier.bytes_kept == sum(document.cost for document in kept) > 50_000


def test_what_is_very_large_or_no_json_is_not_kept(monkeypatch):
    """To compare it would take the reactor too long; or there is nothing to take over."""
    monkeypatch.setattr(module, "_LARGEST", 5000)
    earlier = Earlier()
    come(earlier, request("a" * 10_000))
    assert earlier.closest(request("a" * 10_000)).shared is None
    broken = Request("POST", "/v1/messages", (), b"{")
    assert broken.document is None
    earlier.keep(broken, earlier.closest(broken))
    earlier.keep(unread := request("unread"), earlier.closest(unread))
    assert earlier.bytes_kept == 0


def test_two_turns_at_once_take_one_place():
    """Whichever is read first; and what one has dropped the other does not drop again."""
    earlier = Earlier()
    come(earlier, request("a" * 1000))
    one, other = request("a" * 1000, "b"), request("a" * 1000, "c")
    closest = [earlier.closest(each) for each in (one, other)]
    for each, found in zip((one, other), closest, strict=True):
        each.after(found.shared)
        assert each.document is not None
        earlier.keep(each, found)
    kept = [document for known in earlier._known.values() for document in known]
    assert kept == [other.document, one.document]
    assert earlier.bytes_kept == sum(document.cost for document in kept)
