"""Upstreams that go away, are busy, or come back."""

import json

import pytest

from tests.proxy.harness import CHUNKED, TIMEOUT, Says, eventually, head

from .conftest import BIG, conversation, refusing, revived, spoken

pytestmark = pytest.mark.slow

SESSIONS = [f"s{number}" for number in range(24)]
BUSY, LOADING = b"429 Too Many Requests", b"503 Service Unavailable"


def test_only_the_conversations_of_a_dead_upstream_move_and_they_stay_moved(pool):
    """Each next turn is answered; the log says what moved; a return moves nothing back."""
    found = pool()
    first = {session: found.said(session) for session in SESSIONS}
    assert set(first.values()) == set(BIG)
    port = found.kill("big")
    second = {session: found.said(session, 2) for session in SESSIONS}
    moved = {session for session in SESSIONS if second[session] != first[session]}
    assert moved == {session for session in SESSIONS if first[session] == "big"}
    eventually(lambda: "moved: big -> " in found.proxy.output)
    assert "upstream big is down" in found.proxy.output
    back = revived(port)
    back.reset(spoken("big"))
    found.proxy.wait_for("upstream big is up again")
    assert {session: found.said(session, 3) for session in SESSIONS} == second
    assert {found.said(f"new{number}") for number in range(24)} == set(BIG)
    back.close()


def test_a_busy_upstream_is_left_once(pool):
    """The next one in the conversation's own order answers; nothing of the refusal goes down.

    Nor is it listened to any longer, for it may have no end. Two are enough: the second refusal
    goes down as it came.
    """
    found = pool()
    home = found.said("a")
    refusal = Says(head(b"Content-Length: 9", status=LOADING), waits=True)

    def refuse(peer, received):
        is_prompt = received.line.startswith(b"POST")
        (refusal if is_prompt else refusing(BUSY))(peer, received)

    found.upstreams[home].reset(refuse)
    other = found.said("a", 2)
    assert other != home
    assert refusal.closed.wait(TIMEOUT)
    assert found.said("a", 3) == other
    assert sum(found.prompts(name) for name in BIG) == 3  # since the first turn
    for name in BIG:
        found.upstreams[name].reset(refusing(BUSY))
    answer = found.ask("a", 4)
    assert (answer.status, json.loads(answer.body)) == (429, {"error": "busy"})
    assert sum(found.prompts(name) for name in BIG) == 2


def test_another_refusal_or_a_cut_stream_is_an_answer(pool):
    """It would be the same elsewhere, or it may have been evaluated; a part is not whole."""
    found = pool()
    home = found.said("a")
    for turn, status in enumerate((b"400 Bad Request", b"404 Not Found", b"500 Oops"), 2):
        found.upstreams[home].reset(refusing(status))
        assert found.ask("a", turn).status == int(status[:3])

    broken = Says(CHUNKED + b"9\r\ndata: 1\n\n\r\n", then="rst")

    def cut(peer, received):
        (broken if received.line.startswith(b"POST") else refusing(BUSY))(peer, received)

    found.upstreams[home].reset(cut)
    answer = found.ask("a", 5, stream=True)
    assert answer.end in ("fin", "rst")
    assert answer.body == b"data: 1\n\n"
    assert sum(found.prompts(name) for name in BIG if name != home) == 0


def test_where_all_are_down_the_error_names_all(pool):
    found = pool()
    for name in BIG:
        found.kill(name)
    answer = found.ask("a")
    error = json.loads(answer.body)
    assert (answer.status, error["type"]) == (502, "error")
    assert all(f"{name} (http://" in error["error"]["message"] for name in BIG)
    other = found.ask("a", path=b"/v1/chat/completions")
    assert "big2 (http://" in json.loads(other.body)["error"]["message"]


def test_a_fallback_stands_in_for_one_that_is_down_not_for_one_that_is_busy(pool):
    """With one line in the log, and until others are back for conversations that begin."""
    found = pool("big", "spare", spare="fallback = true")
    said = "requests go to spare, which is a fallback"
    assert {found.said(session) for session in SESSIONS[:4]} == {"big"}
    port = found.kill("big")
    assert {found.said("s1", 2), found.said("new")} == {"spare"}
    found.proxy.wait_for(said)
    back = revived(port)
    back.reset(spoken("big"))
    found.proxy.wait_for("upstream big is up again")
    assert found.said("newer") == "big"
    back.reset(refusing(BUSY))
    assert found.ask("newer", 2).status == 429
    assert found.proxy.output.count(said) == 1
    back.reset(refusing(LOADING))
    assert found.said("newer", 2) == "spare"
    eventually(lambda: found.proxy.output.count(said) == 2)
    back.close()


RULE = """
[[rule]]
name = "stamp"
where = "system"
pattern = 'stamp=[0-9]+'
replacement = "stamp=0"
why = "a stamp"
"""
MINE = (b"x-api-key: mine", b"Authorization: Bearer mine", b"X-Cacheproxy-Probe: x")
COOKIES = (b"Cookie: a=1; cacheproxy-0f3a=ours", b"X-Cacheproxy-Token: t")
AS_IT_CAME = {"x-api-key": [b"mine"], "authorization": [b"Bearer mine"], "cookie": [b"a=1"]}


@pytest.mark.parametrize(
    ("settings", "keys", "is_home"),
    [
        ("", AS_IT_CAME, True),
        ("remote = true\nforward_credentials = true", AS_IT_CAME, False),
        ('remote = true\nkey_env = "CLOUD_KEY"', {"x-api-key": [b"sk-cloud-1"]}, False),
    ],
    ids=["here", "trusted", "with a key of its own"],
)
def test_what_an_upstream_gets(pool, settings, keys, is_home):
    """Only at home is anything edited; elsewhere the client's keys go only where it is allowed.

    What is ours (token, cookie, probe) goes to nobody, whether it is set or not.
    """
    settings += '\nmodels = ["their-*"]\nmodel = "theirs"'
    environ = {"CLOUD_KEY": "sk-cloud-1"}
    found = pool("one", "two", one=settings, two="", routes=RULE, environ=environ)
    asked = json.dumps(conversation("a", 1, system="x stamp=77") | {"model": "their-1"}).encode()
    answer = found.proxy.ask("/v1/messages?key=mine&beta=true", asked, *MINE, *COOKIES)
    assert json.loads(answer.body)["content"][0]["text"] == "one"
    (got,) = (each for each in found.upstreams["one"].requests.queue if b"stamp" in each.body)
    body = json.loads(got.body)
    assert (body["system"], body["model"]) == (f"x stamp={0 if is_home else 77}", "theirs")
    is_theirs = keys is AS_IT_CAME
    assert (b"?key=mine&beta=true " if is_theirs else b"?beta=true ") in got.line
    assert {name: got.values(name.encode()) for name in AS_IT_CAME} == {
        name: keys.get(name, []) for name in AS_IT_CAME
    }
    assert not [name for name, _ in got.headers if name.lower().startswith(b"x-cacheproxy")]
    assert "sk-cloud-1" not in found.proxy.output
