"""Earlier reasoning is given back to a server whose template keeps it, on real sockets."""

import json
from functools import partial

import pytest

from tests.core.templates import thinking
from tests.proxy.harness import Client, eventually, whole
from tests.proxy.placing.templated import PAGE, PATHS, TOKENIZE, ModelServer, renders, tokenizes

WORD = {"clear_thinking": False}
KWARGS = "chat_template_kwargs"
LARGE = 'so "x"\n' * 30_000
"""200 KB; streamed, it is read in a thread."""


class Thinker(ModelServer):
    """Answers "a1", "a2", … each after reasoning; ``name``: of the member that it stands in."""

    def __init__(self, *, name="reasoning_content", thought="because", **settings):
        template = partial(thinking, keeps=lambda late, given: late or "clear_thinking" in given)
        super().__init__(template, pages={PAGE: renders}, **settings)
        self.name, self.thought = name, thought
        self.count = 0

    def answer(self, peer, api, body):
        self.count += 1
        thought, text = f"{self.thought}{self.count}", f"a{self.count}"
        if api == "messages":
            blocks = [{"type": "thinking", "thinking": thought, "signature": ""}]
            blocks.append({"type": "text", "text": text})
            usage = {"input_tokens": 9, "output_tokens": 1}
            self.send(peer, b"200 OK", {"role": "assistant", "content": blocks, "usage": usage})
        elif body.get("stream"):
            pieces = [thought[at : at + 2_000] for at in range(0, len(thought), 2_000)]
            deltas = [*({self.name: piece} for piece in pieces), {"content": text}]
            chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
            chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            data = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in chunks)
            peer.send(whole(data + b"data: [DONE]\n\n", b"Content-Type: text/event-stream"))
        else:
            message = {"role": "assistant", "content": text, self.name: thought}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 1}
            self.send(peer, b"200 OK", {"choices": [choice], "usage": usage})


class Agent:
    """A client that drops reasoning, over one connection, so that turns follow at once."""

    def __init__(self, proxy, api="chat", **more):
        self.messages = []
        self._api, self._more = api, {"model": "m", "max_tokens": 9, **more}
        self._client = Client(proxy.address)

    def say(self, *texts):
        """Send a turn for each; the text of its answer is what ``Thinker`` says."""
        for text in texts:
            self.messages.append({"role": "user", "content": text})
            body = json.dumps(self._more | {"messages": self.messages}).encode()
            answer = self._client.ask(PATHS[self._api], body, b"X-Session-Id: s").answer()
            assert answer.status == 200
            said = f"a{(len(self.messages) + 1) // 2}"
            assert said.encode() in answer.body
            self.messages.append({"role": "assistant", "content": said})
        return self


def sent(server, api="chat"):
    """The bodies that came to the server."""
    return server.bodies(PATHS[api])


@pytest.mark.parametrize(
    ("name", "thought", "stream"),
    [
        ("reasoning_content", "because", False),
        ("reasoning", "because", True),
        ("reasoning_content", LARGE, True),
        ("reasoning", LARGE, False),
    ],
    ids=["whole", "streamed", "large and streamed", "large and whole"],
)
def test_what_the_client_dropped_is_given_back(start, stream, name, thought):
    """Under the server's own name for it, in each later turn; a large one in time, too."""
    server = Thinker(name=name, thought=thought)
    proxy = start(server, "--keep-thinking", "yes")
    agent = Agent(proxy, stream=stream).say("one", "two", "three")
    first, second, third = sent(server)
    assert first[KWARGS] == second[KWARGS] == third[KWARGS] == WORD
    assert third["messages"][1] == agent.messages[1] | {name: f"{thought}1"}
    assert third["messages"][3] == agent.messages[3] | {name: f"{thought}2"}
    assert second["messages"] == third["messages"][:3]


GIVEN_BACK = {"role": "assistant", "content": "a1", "reasoning_content": "because1"}
THOUGHT = {"type": "thinking", "thinking": "because1", "signature": ""}


def test_a_messages_client_gets_back_what_its_server_takes(start):
    """A block of thinking before the text; tokens are counted with it, which is no turn."""
    server = Thinker()
    proxy = start(server, "--keep-thinking", "yes")
    agent = Agent(proxy, "messages").say("one", "two")
    last = sent(server, "messages")[-1]
    assert last["messages"][1]["content"] == [THOUGHT, {"type": "text", "text": "a1"}]
    assert last[KWARGS] == WORD
    path = f"{PATHS['messages']}/count_tokens"
    server.pages[path] = lambda server, peer, *_: server.send(peer, b"200 OK", {"input_tokens": 1})
    messages = [*agent.messages, {"role": "user", "content": "x"}]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert proxy.ask(path, body, b"X-Session-Id: s").status == 200
    (counted,) = server.bodies(path)
    assert counted["messages"][1]["content"][0] == THOUGHT


@pytest.mark.parametrize("stream", [False, True])
def test_it_comes_through_translation(start, stream):
    """A Messages client before a server that speaks Chat Completions alone."""
    server = Thinker(apis=("chat",))
    proxy = start(server, "--keep-thinking", "yes", "--dialect", "openai")
    Agent(proxy, "messages", stream=stream).say("one", "two")
    last = sent(server)[-1]
    assert (last["messages"][1], last[KWARGS]) == (GIVEN_BACK, WORD)


def test_it_is_said_once_and_shown(start):
    """In the banner, in the log with the way to switch it off, on the pages."""
    proxy = start(Thinker(), "--keep-thinking", "yes")
    Agent(proxy).say("one", "two", "three")
    eventually(lambda: sum("by rule kept-thinking" in line for line in proxy.lines) == 3)
    (said,) = (line for line in proxy.lines if "(logged once" in line)
    assert "--keep-thinking no" in said
    assert any(line.startswith("  thinking    drops the thinking") for line in proxy.lines)
    told = proxy.page("health")["thinking"]
    assert (told["setting"], told["on"]) == ("yes", True)
    assert proxy.page("data")["upstream"]["words"]["thinking"] == told["says"]


@pytest.mark.parametrize(
    ("setting", "renders"), [("no", True), ("auto", True), ("yes", False)], ids=str
)
def test_nothing_is_changed_unasked(start, setting, renders):
    """With auto, not before the memory is known to have checkpoints only.

    Nor where the server has no page that renders: some refuse members that they do not know.
    """
    server = Thinker()
    if not renders:
        server.pages.clear()
    agent = Agent(start(server, "--keep-thinking", setting)).say("one", "two")
    first, second = sent(server)
    assert KWARGS not in first | second
    if setting != "yes":
        assert second["messages"] == agent.messages[:3]


def test_vllm_renders_for_chat_completions_alone(start):
    """Its Messages API puts prompts together otherwise, and has no such kwargs."""
    server = Thinker(name="reasoning")
    server.pages = {TOKENIZE: tokenizes}
    proxy = start(server, "--keep-thinking", "yes")
    for api in ("chat", "messages"):
        server.count = 0
        Agent(proxy, api).say("one", "two")
    last = sent(server)[-1]
    assert (last["messages"][1]["reasoning"], last[KWARGS]) == ("because1", WORD)
    assert KWARGS not in sent(server, "messages")[-1]
