"""Upstreams that go away, are busy, or come back."""

from __future__ import annotations

import json
import threading

import pytest

from tests.proxy.harness import CHUNKED, TIMEOUT, Client, eventually, head, whole

from .conftest import BIG, conversation, refusing, revived, spoken

pytestmark = pytest.mark.slow

SESSIONS = [f"s{number}" for number in range(24)]


def test_a_conversation_stays_and_conversations_spread(pool):
    """Each has its own upstream, the same for all turns."""
    found = pool()
    first = {session: found.said(session) for session in SESSIONS}
    assert set(first.values()) == set(BIG)
    for turn in (2, 3):
        assert {session: found.said(session, turn) for session in SESSIONS} == first


def test_only_the_conversations_of_a_dead_upstream_move_and_they_stay_moved(pool):
    """Each next turn is answered; the log says what moved; a return moves nothing back."""
    found = pool()
    first = {session: found.said(session) for session in SESSIONS}
    port = found.kill("big")
    second = {session: found.said(session, 2) for session in SESSIONS}
    assert {s for s in SESSIONS if second[s] != first[s]} == {
        s for s in SESSIONS if first[s] == "big"
    }
    eventually(lambda: "moved: big -> " in found.proxy.output)
    assert "upstream big is down" in found.proxy.output
    back = revived(port)
    back.reset(spoken("big"))
    found.proxy.wait_for("upstream big is up again")
    assert {session: found.said(session, 3) for session in SESSIONS} == second
    assert {found.said(f"new{number}") for number in range(24)} == set(BIG)
    back.close()


@pytest.mark.parametrize("status", [b"503 Service Unavailable", b"429 Too Many Requests"])
def test_a_busy_upstream_is_left_once(pool, status):
    """The next one in the conversation's own order answers; nothing of the refusal goes down."""
    found = pool()
    home = found.said("a")
    found.upstreams[home].reset(refusing(status))
    other = found.said("a", 2)
    assert other != home
    assert found.said("a", 3) == other
    assert sum(found.prompts(name) for name in BIG) == 3  # since the first turn


def test_a_busy_upstream_is_not_listened_to_any_longer(pool):
    """Another answers meanwhile: its refusal may have no end."""
    found, closed = pool(), threading.Event()
    home = found.said("a")

    def refuse(peer, received):
        if received.line.startswith(b"POST"):
            peer.send(head(b"Content-Length: 9", status=b"503 Service Unavailable"))
            if peer.wait_closed():
                closed.set()
        else:
            peer.send(whole(b"{}", b"Content-Type: application/json"))

    found.upstreams[home].reset(refuse)
    assert found.said("a", 2) != home
    assert closed.wait(TIMEOUT)


def test_two_busy_upstreams_are_enough(pool):
    """The second refusal goes down as it came: no third upstream is asked."""
    found = pool()
    for name in BIG:
        found.upstreams[name].reset(refusing(b"429 Too Many Requests"))
    answer = found.ask("a")
    assert answer.status == 429
    assert json.loads(answer.body) == {"error": "busy"}
    assert sum(found.prompts(name) for name in BIG) == 2


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found", b"500 Oops"])
def test_another_refusal_is_an_answer(pool, status):
    """It would be the same elsewhere, or it may have been evaluated."""
    found = pool()
    home = found.said("a")
    found.upstreams[home].reset(refusing(status))
    assert found.ask("a", 2).status == int(status[:3])
    assert sum(found.prompts(name) for name in BIG if name != home) == 0


def test_a_cut_stream_is_cut_and_nobody_else_is_asked(pool):
    """What went down cannot be taken back; the client sees that it is not whole."""
    found = pool()
    home = found.said("a")

    def cut(peer, received):
        if received.line.startswith(b"POST"):
            peer.send(CHUNKED)
            peer.chunk(b"data: 1\n\n")
            peer.reset()

    found.upstreams[home].reset(cut)
    answer = found.ask("a", 2, stream=True)
    assert answer.end in ("fin", "rst")
    assert answer.body == b"data: 1\n\n"
    assert sum(found.prompts(name) for name in BIG if name != home) == 0


def test_where_all_are_down_the_error_names_all(pool):
    """In the client's own dialect."""
    found = pool()
    for name in BIG:
        found.kill(name)
    answer = found.ask("a")
    assert answer.status == 502
    error = json.loads(answer.body)
    assert error["type"] == "error"
    assert all(f"{name} (http://" in error["error"]["message"] for name in BIG)
    other = found.ask("a", path=b"/v1/chat/completions")
    assert "big2 (http://" in json.loads(other.body)["error"]["message"]


def test_a_fallback_is_used_while_all_others_are_down(pool):
    """With one line in the log, and until others are back for conversations that begin."""
    found = pool("big", "spare", spare="fallback = true")
    assert found.said("a") == "big"
    assert {found.said(session) for session in SESSIONS} == {"big"}
    port = found.kill("big")
    assert found.said("a", 2) == "spare"
    assert found.said("b") == "spare"
    said = "requests go to spare, which is a fallback"
    found.proxy.wait_for(said)
    assert found.proxy.output.count(said) == 1
    back = revived(port)
    back.reset(spoken("big"))
    found.proxy.wait_for("upstream big is up again")
    assert found.said("c") == "big"
    back.close()


def test_a_fallback_stands_in_for_one_that_is_down_not_for_one_that_is_busy(pool):
    """A prompt leaves for it with a line in the log, or not at all."""
    found = pool("big", "spare", spare="fallback = true")
    found.upstreams["big"].reset(refusing(b"429 Too Many Requests"))
    assert found.ask("a").status == 429
    assert "requests go to spare" not in found.proxy.output
    found.upstreams["big"].reset(refusing(b"503 Service Unavailable"))
    assert found.said("a", 2) == "spare"
    found.proxy.wait_for("requests go to spare, which is a fallback")
    assert found.prompts("spare") == 1


def test_a_remote_upstream_gets_requests_as_they_came_and_its_own_key(pool):
    """Nothing is edited there; the client's key does not go there."""
    rule = (
        '[[rule]]\nname = "stamp"\nwhere = "system"\npattern = \'stamp=\\d+\'\n'
        'replacement = "stamp=0"\nwhy = "a stamp"\n'
    )
    found = pool(
        "cloud",
        "here",
        cloud='remote = true\nkey_env = "CLOUD_KEY"\nmodels = ["cloud-*"]\nmodel = "theirs"',
        here='models = ["here"]',
        routes=rule,
        environ={"CLOUD_KEY": "sk-cloud-1"},
    )
    for model, name, stamp in (("cloud-1", "cloud", "stamp=77"), ("here", "here", "stamp=0")):
        asked = json.dumps(conversation("a", 1, system="x stamp=77") | {"model": model}).encode()
        found.upstreams[name].reset(spoken(name))
        with Client(found.proxy.address) as client:
            mine = b"x-api-key: mine", b"Authorization: Bearer mine", b"Cookie: k=mine"
            client.ask("/v1/messages?key=mine&beta=true", asked, *mine)
            assert json.loads(client.answer().body)["content"][0]["text"] == name
        got = next(r for r in found.upstreams[name].requests.queue if b"POST" in r.line)
        assert json.loads(got.body)["system"] == f"x {stamp}"
        assert json.loads(got.body)["model"] == ("theirs" if name == "cloud" else "here")
        keys = got.values(b"x-api-key"), got.values(b"authorization")
        assert keys == (([b"sk-cloud-1"], []) if name == "cloud" else ([b"mine"], [b"Bearer mine"]))
        query = b"?beta=true " if name == "cloud" else b"?key=mine&beta=true "
        assert query in got.line
        assert got.values(b"cookie") == ([] if name == "cloud" else [b"k=mine"])
    assert "sk-cloud-1" not in found.proxy.output


OURS = b"cacheproxy-0f3a=ours"
GIVEN = (b"Cookie: a=1; " + OURS, b"Authorization: Bearer mine", b"X-Cacheproxy-Token: t")


@pytest.mark.parametrize(
    ("settings", "authorization", "cookie"),
    [
        ('models = ["x"]', [b"Bearer mine"], [b"a=1"]),
        ('models = ["x"]\nremote = true\nforward_credentials = true', [b"Bearer mine"], [b"a=1"]),
        ('models = ["x"]\nremote = true\nkey_env = "CLOUD_KEY"', [b"Bearer own"], []),
    ],
)
def test_whose_credentials_an_upstream_gets(pool, settings, authorization, cookie):
    """Where there are several: at home the client's, elsewhere its own, or what is allowed.

    What is ours (token, cookie, probe) goes to nobody, whether it is set or not.
    """
    found = pool("one", "two", one=settings, two="", environ={"CLOUD_KEY": "own"})
    asked = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hi"}]}).encode()
    with Client(found.proxy.address) as client:
        client.ask("/v1/chat/completions", asked, *GIVEN, b"X-Cacheproxy-Probe: x")
        assert client.answer().status == 200
    (got,) = (r for r in found.upstreams["one"].requests.queue if b"POST /v1/chat" in r.line)
    assert (got.values(b"authorization"), got.values(b"cookie")) == (authorization, cookie)
    assert not [name for name, _ in got.headers if name.lower().startswith(b"x-cacheproxy")]


def test_an_upstream_that_flaps_keeps_nobody_waiting(pool):
    """Whatever it does between two questions, every turn is answered, and no other moves."""
    found = pool()
    first = {session: found.said(session) for session in SESSIONS}
    port, seen = found.kill("big"), {}
    for turn in range(2, 5):
        back = revived(port)
        back.reset(spoken("big"))
        seen = {session: found.said(session, turn) for session in SESSIONS}
        back.close()
    assert all(seen[s] == first[s] for s in SESSIONS if first[s] != "big")


def test_a_server_that_loads_its_model_says_503_and_is_left_alone(pool):
    """Its /health says so before any request is lost there."""
    found = pool()

    def loading(peer, _):
        peer.send(whole(b'{"error": "loading"}', status=b"503 Service Unavailable"))

    found.upstreams["big2"].reset(loading)
    found.proxy.wait_for("upstream big2 is down")
    assert {found.said(session) for session in SESSIONS} == {"big", "big3"}
    assert found.prompts("big2") == 0
