"""Nothing of one conversation gets into another on its whole way through the running proxy.

The conversations are those of ``tests/core/conversation/worlds.py``; requests and answers go over
sockets. What is asked about the template, a real server answers; what is said, a script.
``CACHEPROXY_TURNS=20000 pytest tests/llama/test_crossing.py`` takes some minutes.
"""

import json
import os

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.http_client import NoAnswerError, Site
from tests import needs
from tests.core.conversation.worlds import (
    ANSWERS,
    CANARY,
    RULE,
    World,
    key_of,
)
from tests.proxy.harness import Upstream, whole

from .blind import hand_on
from .causes.servers import Llama

pytestmark = [pytest.mark.llama, pytest.mark.slow]

TURNS = int(os.environ.get("CACHEPROXY_TURNS", "800"))
EACH = 400
SAID = ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat")


def spoken(path, text, thought):
    """The answer of each API."""
    if path == "/v1/messages":
        blocks = [{"type": "thinking", "thinking": thought, "signature": ""}]
        blocks.append({"type": "text", "text": text})
        usage = {"input_tokens": 9, "output_tokens": 3}
        said = {"type": "message", "role": "assistant", "content": blocks, "usage": usage}
        return said | {"id": "m", "model": "m", "stop_reason": "end_turn"}
    if path == "/v1/responses":
        block = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "content": [block]}
        return {"id": "r", "object": "response", "status": "completed", "output": [item]}
    message = {"role": "assistant", "content": text}
    if path == "/api/chat":
        return {"model": "m", "message": message | {"thinking": thought}, "done": True}
    choice = {"index": 0, "message": message | {"reasoning_content": thought}}
    return {"id": "c", "object": "chat.completion", "choices": [choice | {"finish_reason": "stop"}]}


def streamed(text, thought):
    """A streamed answer of Chat Completions."""
    said = ({"reasoning_content": thought}, {"content": text}, {"content": ""})
    parts = [{"choices": [{"index": 0, "delta": delta}]} for delta in said]
    parts.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


class Wired(World):
    """A world whose requests go through the running proxy."""

    def __init__(self, seed, upstream, server):
        super().__init__(seed, (), ())
        self.server = server
        self.answer = None
        upstream.reset(self.script)

    def restart(self):
        """Other tests restart the proxy."""

    def script(self, peer, received):
        path = received.line.decode().split()[1]
        if path not in SAID:
            hand_on(peer, received, self.server)
            return
        self.came = json.loads(received.body)
        if self.answer is None:
            peer.reset()
        elif self.came.get("stream"):
            peer.send(whole(streamed(*self.answer), b"Content-Type: text/event-stream"))
        else:
            body = json.dumps(spoken(path, *self.answer)).encode()
            peer.send(whole(body, b"Content-Type: application/json"))

    def send(self, talk, *, answers):
        chance = self.random.random
        asked = self.body(talk)
        if talk.kind.path.endswith("completions"):
            asked["stream"] = chance() < 0.5
        headers = {"User-Agent": talk.kind.agent, "Content-Type": "application/json"}
        if talk.identity and talk.kind.named:
            headers[talk.kind.named] = talk.identity
        if talk.key:
            headers["Authorization"] = f"Bearer {talk.key}"
        text = self.random.choice(ANSWERS) if chance() < 0.6 else self.canary(talk, "A")
        thought = self.canary(talk, "R")
        self.answer, self.came = (text, thought) if answers else None, None
        said = self.post(talk.kind.path, asked, headers)
        assert self.came is not None, said
        assert self.answer is None or text in said, said
        self.look(talk, asked, self.came)
        talk.answered = answers
        if not answers:
            return
        theirs = {"".join((f"C{one}", letter, at)) for one, letter, at in CANARY.findall(said)}
        ours = set(CANARY.findall(f"{text} {thought}"))
        if not theirs <= {"".join((f"C{one}", letter, at)) for one, letter, at in ours}:
            self.complain(talk, "an answer of another", theirs)
        talk.truth[len(talk.items)] = thought
        talk.items.append({"role": "assistant", "content": text})
        self.truths.setdefault(key_of(talk, talk.items), set()).add(thought)
        if chance() < 0.1:
            talk.items.append({"role": "system", "content": self.canary(talk, "S")})
            self.ask(talk)
            talk.answered = False

    def post(self, path, body, headers):
        try:
            return Site(self.proxy.url, headers).post(path, json.dumps(body).encode()).body.decode()
        except NoAnswerError as error:
            return repr(error)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    needs.llama()
    found = Llama("llama", tmp_path_factory.mktemp("crossing"), "keep")
    yield found.url
    found.close()


@pytest.mark.parametrize("options", [(), ("--dialect", "openai"), ("--placement", "user")])
def test_each_conversation_has_its_own_on_the_wire(options, server, tmp_path):
    """Read by the upstream and by the client, translated or not, streamed or not."""
    config = tmp_path / "config.toml"
    config.write_text(RULE)
    upstream = Upstream()
    try:
        for seed in range(max(1, TURNS // EACH // 3)):
            wired = Wired(f"{options} {seed}", upstream, server)
            more = ("--config", str(config), "--keep-thinking", "yes", *options)
            with Proxy(upstream.url, *more) as wired.proxy:
                for _ in range(EACH):
                    wired.step()
            assert (dict(wired.wrong), wired.shown) == ({}, [])
            assert wired.found["reasoning"] > EACH / 8
            assert len(wired.found) > 2
    finally:
        assert upstream.errors == []
        upstream.close()
