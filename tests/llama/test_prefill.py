"""While the real server evaluates a long prompt: it stops for a client that leaves; pings pass."""

import itertools
import json
from urllib.parse import urlsplit

import pytest
from cacheproxy_demo.embedded import write_model

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from tests import needs
from tests.proxy.harness import Client, eventually

from .replay import erase, start_server

pytestmark = pytest.mark.llama

CANCEL, IDLE = "cancel task", "all slots are idle"
LONG = [{"role": "user", "content": " of or in is to" * 2500}]
"""About as many tokens as words: ten seconds of work for this model on two cores."""
SHORT = [{"role": "user", "content": " of or in is to" * 300}]
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One whose model takes its time; in small batches, after each of which it may stop."""
    needs.llama()
    folder = tmp_path_factory.mktemp("slow")
    model = write_model(folder / "slow.gguf", size="slow")
    settings = {"n_batch": 256, "n_ubatch": 256, "n_ctx": 32_768, "sampling__ignore_eos": True}
    with start_server(model, folder, **settings) as server:
        yield server


@pytest.fixture(scope="module")
def patient(server):
    """The proxy before it, which soon lets clients know that it is there, and holds nothing."""
    with Proxy(server.url, "--ping-after", "0.1", "--hold", "0") as proxy:
        yield proxy


def connected(url):
    parts = urlsplit(url)
    return Client((parts.hostname, parts.port))


def slot(server):
    """The server's only slot: whether it works, and how many tokens of an answer it has made."""
    with connected(server.url) as client:
        answer = client.ask("/slots", method=b"GET", version=b"HTTP/1.0").answer()
    (found,) = json.loads(answer.body)
    (made,) = found.get("next_token", [{"n_decoded": 0}])  # before the first task there is none
    return found["is_processing"], made["n_decoded"]


def asked(api, said, tokens, *, stream):
    body = {"model": "random", "messages": said, "max_tokens": tokens, "stream": stream, "seed": 1}
    return PATHS[api], json.dumps(body).encode()


def working(server, decoded):
    """Whether it works on a prompt, or has made more than ``decoded`` tokens of the answer."""
    busy, made = slot(server)
    return busy and (not made if decoded is None else made > decoded)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "at once"])
@pytest.mark.parametrize("phase", ["prompt", "token"])
def test_the_slot_is_free_once_the_client_has_left(server, patient, phase, stream, how):
    """It does not do the rest: its log says that the task was cancelled.

    The server looks once a second whether a client is still there, and begins to count anew with
    every answer it gives to anybody: so its log is watched, and not ``/slots``.
    """
    erase(server.url)
    said, decoded = (LONG, None) if phase == "prompt" else (SHORT, 5)
    with connected(patient.url) as client:
        client.ask(*asked("messages", said, 20_000, stream=stream))
        if stream:
            assert client.begin().status == 200
        eventually(lambda: working(server, decoded))
        before = len(server.log())
        client.leave(how)
        eventually(lambda: IDLE in server.log()[before:].partition(CANCEL)[2])
    assert not slot(server)[0]


@pytest.mark.parametrize("api", PATHS)
def test_the_wait_for_a_long_prompt_carries_pings(server, patient, api):
    """Before the first event, and nothing else is different."""
    path, body = asked(api, SHORT, 3, stream=True)
    bodies = []
    for url in (server.url, patient.url):
        erase(server.url)
        with connected(url) as client:
            answer = client.ask(path, body).answer()
        assert (answer.status, answer.end) == (200, "whole")
        bodies.append([block for block in answer.body.split(b"\n\n") if block])
    direct, through = bodies
    pings = {sign(b"").strip() for sign in (MESSAGES.sign, CHAT.sign)}
    assert list(itertools.takewhile(pings.__contains__, through))
    assert [kind(block) for block in through if block not in pings] == list(map(kind, direct))


def kind(block):
    """An event without what differs from answer to answer: its keys."""
    name, _, data = block.rpartition(b"data: ")
    return name, list(json.loads(data)) if data.startswith(b"{") else data
