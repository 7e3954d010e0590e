"""Several upstreams that do not speak alike, and clients that do not wait for them."""

import json
import threading

import pytest

from tests.proxy.harness import TIMEOUT, Client, eventually, whole

from .conftest import BIG, conversation, refusing, spoken

pytestmark = pytest.mark.slow


def of_openai(peer, received):
    """A script: an upstream that knows the OpenAI API alone."""
    status, body = b"200 OK", {}
    if b"/chat/completions" in received.line:
        message = {"role": "assistant", "content": "openai"}
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"object": "chat.completion", "id": "c1", "model": "m", "choices": [choice]}
        body["usage"] = usage
    elif not received.line.startswith(b"GET /health"):
        status, body = b"404 Not Found", {"detail": "Not Found"}
    peer.send(whole(json.dumps(body).encode(), b"Content-Type: application/json", status=status))


def waiting(proxy):
    return {one["name"]: one["waiting"] for one in proxy.page("health")["upstreams"]}


@pytest.mark.parametrize("how", ["killed", "busy"])
def test_the_next_upstream_may_speak_another_dialect(pool, how):
    """The client reads its own, and the other way round."""
    found = pool("big", "other", scripts={"other": of_openai})
    sessions = [f"s{number}" for number in range(8)]
    assert {found.said(session) for session in sessions} == {"big", "openai"}
    if how == "killed":
        found.kill("big")
    else:
        found.upstreams["big"].reset(refusing(b"503 Service Unavailable"))
    assert {found.said(session, 2) for session in sessions} == {"openai"}
    assert waiting(found.proxy) == {"big": 0, "other": 0}


def test_a_key_that_an_upstream_repeats_is_not_recorded(pool, tmp_path):
    """Some say what they were given when they turn it down."""
    key = "0123456789abcdef0123456789abcdef"
    said = json.dumps({"error": {"message": f"no such key: {key}"}}).encode()

    def answer(peer, received):
        if received.line.startswith(b"POST"):
            peer.send(whole(said, b"Content-Type: application/json", status=b"401 Unauthorized"))
        else:
            peer.send(whole(b"{}", b"Content-Type: application/json"))

    found = pool(
        "big",
        "big2",
        scripts={"big": answer, "big2": answer},
        **dict.fromkeys(("big", "big2"), 'key_env = "KEY"'),
        environ={"KEY": key},
        options=("--capture", str(tmp_path / "captured")),
    )
    assert found.ask("a").status == 401
    assert " 401 " in found.proxy.wait_for("no such key")
    folder = tmp_path / "captured"
    eventually(lambda: any(b"401" in path.read_bytes() for path in folder.glob("*.jsonl")))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if key.encode() in path.read_bytes()]
    assert key not in found.proxy.output


def test_who_waits_is_counted_and_no_more_when_it_is_over(pool):
    found = pool()
    nobody = dict.fromkeys(BIG, 0)
    for name in BIG:
        found.upstreams[name].reset(lambda peer, _: peer.wait_closed())
    asked = json.dumps(conversation("a", 1)).encode()
    with Client(found.proxy.address) as client:
        client.ask("/v1/messages", asked)
        eventually(lambda: sum(waiting(found.proxy).values()) == 1)
    eventually(lambda: waiting(found.proxy) == nobody)
    for status in (b"429 Too Many Requests", b"503 Service Unavailable", b"400 Bad Request"):
        for name in BIG:
            found.upstreams[name].reset(refusing(status))
        for session in ("a", "b", "c"):
            assert found.ask(session).status == int(status[:3])
        assert waiting(found.proxy) == nobody
    for name in BIG:
        found.upstreams[name].reset(lambda peer, _: peer.send(b"HTTP/1.1 2"))
    assert found.ask("a").status == 502
    for name in BIG:
        found.kill(name)
    assert found.ask("b").status == 502
    assert found.proxy.ask("/v1/models", None, method=b"GET").status == 502
    assert waiting(found.proxy) == nobody


def test_a_conversation_stays_where_its_retry_was_answered(pool):
    """Though its first request, which the server got, never had an answer."""
    waits = threading.Event()
    asked = threading.Semaphore(0)

    def script(name):
        def answer(peer, received):
            if b"a asks" in received.body:
                asked.release()
                waits.wait(TIMEOUT)
            spoken(name)(peer, received)

        return answer

    found = pool("big", "big2", scripts={name: script(name) for name in ("big", "big2")})
    body, named = json.dumps(conversation("a", 1)).encode(), b"X-Session-ID: a"
    client = Client(found.proxy.address).ask(b"/v1/messages", body, named)
    assert asked.acquire(timeout=TIMEOUT)
    client.close()
    found.proxy.wait_for("held for a retry")
    client = Client(found.proxy.address).ask(b"/v1/messages", body, named)
    eventually(lambda: sum(waiting(found.proxy).values()) == 1)
    waits.set()
    home = json.loads(client.answer().body)["content"][0]["text"]
    assert asked.acquire(timeout=0.1) is False
    found.kill(home)
    body = json.dumps(conversation("a", 2)).encode()
    assert found.proxy.ask(b"/v1/messages", body, named).status == 200
    assert f"moved: {home} -> " in found.proxy.wait_for("moved: ")
