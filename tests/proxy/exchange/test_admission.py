"""Agents at one server that shares heads once they are read, as SGLang does: each is read once."""

import json
import signal
import socket
import threading
import time

import pytest

from cacheproxy.core.kinds.profile import Shares
from tests.proxy.exchange.test_holding import CHAT, LLAMA, TYPE, VLLM, session, word
from tests.proxy.harness import CHUNKED, LAST, Client, chunk, eventually, whole

SGLANG = {b"GET /v1/models": json.dumps({"data": [{"id": "m", "owned_by": "sglang"}]}).encode()}


def llama(slots):
    """The pages of a llama-server."""
    props = {"default_generation_settings": {"n_ctx": 65_536}, "total_slots": slots}
    return {**LLAMA, b"GET /props": json.dumps(props).encode()}


FAST, SLOW, DENSITY = 4000.0, 500.0, 4
"""Tokens a second, and characters of one."""
HEAD = "You are an agent. " * 450
"""2,025 tokens: half a second, or four."""


class Scripted:
    """A server that reads one prompt after the other, and has from then on what it has read.

    ``shares``: when others have it, too. ``evaluated``: tokens of prompts, by the user's text.
    ``answers``: seconds that an answer takes. ``gate``: no prompt is read before it is set.
    ``stops``: what it is at by then is cut off, once.
    """

    def __init__(self, *, shares=Shares.READ, answers=0.3, speed=FAST, pages=SGLANG):
        self.shares, self.answers, self.speed, self.pages = shares, answers, speed, pages
        self.known, self.evaluated, self.order = set(), {}, []
        self.reading, self.gate = threading.Lock(), threading.Event()
        self.gate.set()
        self.stops = False

    def __call__(self, peer, received):
        page = self.pages.get(received.line.rpartition(b" ")[0])
        if page is not None or not received.body:
            peer.send(whole(page, TYPE) if page else whole(b"{}", status=b"404 Not Found"))
            return
        texts = [each["content"] for each in json.loads(received.body)["messages"]]
        self.order.append(texts[1])
        known = self.found(texts)
        if self.shares is Shares.READING:
            self.learn(texts)
        with self.reading:
            self.gate.wait(60)
            if self.stops:
                self.stops = False
                peer.sock.shutdown(socket.SHUT_RDWR)
                return
            cached = max((len(one) for one in known if "".join(texts).startswith(one)), default=0)
            tokens = [len("".join(texts)) // DENSITY, cached // DENSITY]
            time.sleep((tokens[0] - tokens[1]) / self.speed)
        if self.shares is Shares.READ:
            self.learn(texts)
        self.evaluated[texts[1]] = self.evaluated.get(texts[1], 0) + tokens[0] - tokens[1]
        peer.send(CHUNKED + chunk(word("Hi")))
        time.sleep(self.answers)
        details = {"cached_tokens": tokens[1]}
        usage = {"prompt_tokens": tokens[0], "completion_tokens": 1, "total_tokens": tokens[0] + 1}
        last = word("!", "stop", usage={**usage, "prompt_tokens_details": details})
        self.over(texts)
        peer.send(chunk(last + b"data: [DONE]\n\n") + LAST)

    def found(self, texts):
        return self.known.copy()

    def over(self, texts):
        pass

    def learn(self, texts):
        self.known |= {"".join(texts[:end]) for end in range(1, len(texts) + 1)}


class Slots(Scripted):
    """A llama-server of four slots: what an answer leaves behind serves one request."""

    def __init__(self, **how):
        super().__init__(pages=llama(4), shares=Shares.NEVER, **how)
        self.free = []

    def found(self, texts):
        for count in range(len(texts), 0, -1):
            for one in self.free:
                if one[:count] == texts[:count]:
                    self.free.remove(one)
                    return {"".join(texts[:count])}
        return set()

    def over(self, texts):
        self.free.append(texts)


def body(text, *more, head=HEAD, stream=True):
    messages = [{"role": "system", "content": head}, {"role": "user", "content": text}]
    for each in more:
        messages += [{"role": "assistant", "content": "Hi!"}, {"role": "user", "content": each}]
    return json.dumps({"model": "m", "messages": messages, "stream": stream}).encode()


def asks(address, name, *more, fields=(), **how):
    """An agent's request, whose answer is awaited later."""
    return Client(address).ask(CHAT, body(name, *more, **how), session(name.encode()), *fields)


def started(start, server, *options):
    """A proxy that knows by a first conversation how fast its server reads."""
    proxy = start(server, *options)
    assert asks(proxy.address, "first", head="Another head. " * 200).answer().end == "whole"
    proxy.wait_for("client/first")
    server.evaluated.clear()
    server.order.clear()
    return proxy


def crowd(address, agents, pause=0.1):
    """Have ``agents`` have two turns each, side by side; return the seconds until all are over.

    ``pause``: between two that start; None: each begins when the one before is over.
    """

    def run(name):
        for turn in range(2):
            assert asks(address, name, *["more"] * turn).answer().end == "whole"

    begun = time.monotonic()
    threads = [threading.Thread(target=run, args=(f"agent {at}",)) for at in range(agents)]
    for thread in threads:
        thread.start()
        thread.join(pause)
    for thread in threads:
        thread.join()
    return time.monotonic() - begun


def test_a_head_that_serves_one_at_a_time_goes_from_answer_to_answer(start, upstream):
    """From the first crowd on, whose server's speed nobody knows, as long as answers are short."""
    upstream.reset(direct := Slots(answers=0.05))
    crowd(("127.0.0.1", upstream.port), 4)
    most, tokens = sum(direct.evaluated.values()), []
    for _ in range(3):  # on a busy machine an answer may seem long, and nobody waits for it
        proxy = start(through := Slots(answers=0.05))
        crowd(proxy.address, 4)
        tokens.append(sum(through.evaluated.values()))
        if tokens[-1] < 0.6 * most:
            break
    assert min(tokens) < 0.6 * most
    assert "waited" in proxy.output


def test_fifty_agents_at_once_all_get_their_answers(start):
    proxy = started(start, server := Scripted(answers=0.1))
    crowd(proxy.address, 50, pause=0.0)
    assert sum(server.evaluated.values()) < 2 * 2025
    assert not running(proxy)


@pytest.mark.parametrize("agents", [2, 4])
def test_a_head_is_read_once(start, upstream, agents):
    """Tokens evaluated and the time to the last answer, beside those of the server alone."""
    there = ("127.0.0.1", upstream.port)
    upstream.reset(direct := Scripted())
    directly = crowd(there, agents)
    upstream.reset(one_by_one := Scripted())
    crowd(there, agents, pause=None)
    proxy = started(start, through := Scripted())
    seconds = crowd(proxy.address, agents)
    tokens, ideal, most = (sum(each.evaluated.values()) for each in (through, one_by_one, direct))
    assert tokens <= 1.1 * ideal < most
    assert seconds < directly
    assert len([line for line in proxy.lines if "s for client/agent" in line]) == agents - 1


@pytest.mark.parametrize(
    ("other", "options"),
    [
        ({"head": HEAD + "."}, ()),
        ({"fields": (b"Authorization: Bearer you",)}, ()),
        ({}, ("--crowd", "off")),
        ({}, ("--crowd-wait", "0")),
    ],
    ids=["its last byte differs", "another owner's", "switched off", "no time"],
)
def test_who_does_not_wait(start, other, options):
    server = Scripted(answers=0.0)
    proxy = started(start, server, *options)
    server.gate.clear()
    first = asks(proxy.address, "one")
    eventually(lambda: server.order == ["one"])
    second = asks(proxy.address, "two", **other)
    eventually(lambda: server.order == ["one", "two"])
    server.gate.set()
    assert first.answer().end == second.answer().end == "whole"
    assert "waited" not in proxy.output


@pytest.fixture
def kept_back(start):
    """A proxy, its server at one prompt, the client of that, and one whose request waits."""

    def kept_back(*options):
        server = Scripted(speed=SLOW, answers=0.0)
        proxy = started(start, server, *options)
        server.gate.clear()
        first = asks(proxy.address, "one")
        eventually(lambda: server.order == ["one"])
        second = asks(proxy.address, "two")
        eventually(lambda: "client/one" in [each["waits_for"] for each in running(proxy)])
        assert server.order == ["one"]
        return proxy, server, first, second

    return kept_back


def running(proxy):
    return proxy.page("data")["prefills"]


def lets_the_first_go(proxy, server, first, second):
    first.close()


def reloads(proxy, server, first, second):
    proxy.signal(signal.SIGHUP)


def stops(proxy, server, first, second):
    proxy.signal(signal.SIGTERM)


def stops_the_server(proxy, server, first, second):
    server.stops = True
    server.gate.set()
    assert first.answer().status == 502


def never_ends(proxy, server, first, second):
    """Nothing else happens: it goes when its time is over."""


@pytest.mark.parametrize(
    ("then", "most"),
    [(lets_the_first_go, 20), (reloads, 20), (stops, 20), (stops_the_server, 20), (never_ends, 2)],
)
def test_who_waits_goes_when_what_it_waits_for_is_over(kept_back, then, most):
    """Its reader leaves, the settings are read anew, the proxy stops once answers have ended."""
    proxy, server, first, second = kept_back("--hold", "0", "--crowd-wait", str(most))
    begun = time.monotonic()
    then(proxy, server, first, second)
    eventually(lambda: server.order == ["one", "two"])
    assert time.monotonic() - begun < 4
    server.gate.set()
    assert second.answer().end == "whole"


def test_who_leaves_while_it_waits_is_never_sent(kept_back):
    proxy, server, first, second = kept_back()
    second.close()
    proxy.wait_for("CLIENT LEFT")
    server.gate.set()
    assert first.answer().end == "whole"
    assert server.order == ["one"]
    assert not running(proxy)


def test_a_stream_that_waits_gets_signs_of_life(kept_back):
    _, server, first, second = kept_back("--head-after", "0.3", "--ping-after", "0.2")
    answer = second.begin()
    pieces = second.pieces(answer)
    assert next(pieces) == next(pieces)
    assert server.order == ["one"]
    server.gate.set()
    assert b"[DONE]" in b"".join(pieces)
    assert first.answer().end == "whole"


def test_a_server_that_shares_nothing_is_believed_after_one_crowd(start):
    """Servers of its kind do; what it says that it reused speaks against that."""
    server = Scripted(shares=Shares.NEVER, answers=1.0)
    proxy = started(start, server)
    crowd(proxy.address, 2)
    proxy.wait_for("serves other requests not while both run")
    assert "waited" in proxy.output
    nobody_waits(proxy)


@pytest.mark.parametrize("pages", [SGLANG, VLLM], ids=["seen", "of its kind"])
def test_where_a_head_is_shared_while_it_is_read_nobody_waits(start, pages):
    """What a request reused shows it that was sent at once, since the speed was not known yet."""
    proxy = start(Scripted(shares=Shares.READING, pages=pages))
    crowd(proxy.address, 2)
    assert ("serves other requests while it is read" in proxy.output) == (pages is SGLANG)
    nobody_waits(proxy)


def nobody_waits(proxy):
    mark = proxy.mark()
    clients = [asks(proxy.address, name, head=HEAD + "Else.") for name in ("three", "four")]
    assert {client.answer().end for client in clients} == {"whole"}
    proxy.wait_for("client/three", mark)
    proxy.wait_for("client/four", mark)
    assert not [line for line in proxy.lines[mark:] if "waited" in line]
