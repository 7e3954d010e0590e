"""Nothing of one person or conversation gets into another through the running proxy.

``CACHEPROXY_TURNS=100000 pytest tests/proxy/test_people.py`` takes some minutes.
"""

import contextlib
import itertools
import json
import os
from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

from tests.core.conversation.people import CUT, GONE, RESET, TOKEN, People, Said
from tests.core.conversation.persons import WAYS
from tests.core.conversation.worlds import KINDS, RULE
from tests.core.templates import thinking
from tests.proxy.harness import (
    CHUNKED,
    LAST,
    Client,
    Proxy,
    Upstream,
    chunk,
    eventually,
    read_request,
    whole,
)
from tests.proxy.placing.templated import PAGE, PATHS, ModelServer, renders
from tests.proxy.speaking import spoken, streamed

pytestmark = pytest.mark.slow

TURNS = int(os.environ.get("CACHEPROXY_TURNS", "1250"))
EACH = 250 if TURNS < 10_000 else 1_000
TWO = ("two proxies",)
OPTIONS = ((), ("--dialect", "openai"), ("--placement", "user"), TWO, ("--memory", "16"))
SAID = {*PATHS.values()}


class Model(Upstream):
    """A server that says what the ``world`` has it say, on connections that stay."""

    world = None

    def __init__(self):
        kept = partial(thinking, keeps=lambda late, given: late or "preserve_thinking" in given)
        self.pages = ModelServer(kept, pages={PAGE: renders})
        super().__init__()

    def _serve(self, peer):
        try:
            with suppress(EOFError, ConnectionError):
                while self.answer(peer, read_request(peer)):
                    pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            peer.close()

    def answer(self, peer, received):
        """Answer one request; whether another may come."""
        path = received.line.decode().split()[1].partition("?")[0]
        if path not in SAID or not received.values(b"x-request-id"):
            self.pages(peer, received)
            self.pages.asked.clear()
            self.pages.raw.clear()
            return True
        (number,) = received.values(b"x-request-id")
        exchange = self.world.exchanges[int(number)]
        exchange.came = json.loads(received.body)
        exchange.arrived.set()
        if exchange.ends == RESET:
            peer.reset()
            return False
        if exchange.waits:
            exchange.go.wait()
        if exchange.came.get("stream"):
            kind, first, last = streamed(path, exchange.said)
            peer.send(CHUNKED.replace(b"text/event-stream", kind) + chunk(first))
            rest = chunk(last) + LAST
        else:
            kind, body = spoken(path, exchange.said)
            made = whole(body, b"Content-Type: " + kind)
            first, rest = made[: -len(body) // 2], made[-len(body) // 2 :]
            peer.send(first)
        if exchange.ends == CUT:
            peer.reset()
            return False
        if exchange.ends == GONE:
            exchange.go.wait()
        peer.send(rest)
        return True


class Wired(People):
    """People before running proxies, which ``start`` starts."""

    def __init__(self, seed, ways, model, start, proxies=1):
        super().__init__(seed, ways, proxies)
        self.start, model.world = start, self
        self.proxies = [start() for _ in range(proxies)]
        self.clients = [None] * proxies

    def restart_proxy(self, number):
        self.hang_up(number)
        self.proxies[number].__exit__()
        self.look_at_log(self.proxies[number])
        self.proxies[number] = self.start()

    def look_at_log(self, proxy):
        """Count what a proxy failed at."""
        for line, following in itertools.pairwise([*proxy.lines, ""]):
            if line.startswith("critical"):
                self.wrong[f"{line} ({following})"] += 1

    def hang_up(self, number):
        if self.clients[number] is not None:
            self.clients[number].close()
            self.clients[number] = None

    def close(self):
        for one in self.left:
            one.go.set()
        for number, proxy in enumerate(self.proxies):
            self.hang_up(number)
            proxy.__exit__()
            self.look_at_log(proxy)

    def deliver(self, exchange, *, leaves=False):
        """Send it with an id that tells the model which one it is, and nobody who asks."""
        talk, number = exchange.talk, exchange.proxy
        fields = [("User-Agent", talk.kind.agent), ("Content-Type", "application/json")]
        fields.append(("X-Request-Id", str(exchange.number)))
        if talk.identity and talk.kind.named:
            fields.append((talk.kind.named, talk.identity))
            if talk.agent:
                fields.append(("X-Claude-Code-Agent-Id", talk.agent))
        fields += talk.person.headers(self.random)
        lines = [f"{name}: {value}".encode() for name, value in fields]
        target, body = talk.kind.path + talk.person.query(), json.dumps(exchange.asked).encode()
        if self.clients[number] is None:
            self.clients[number] = Client(self.proxies[number].address)
        client = self.clients[number].ask(target, body, *lines)
        if leaves:
            eventually(lambda: exchange.arrived.wait(0.005) or client.peek())
            self.hang_up(number)
            return None
        if exchange.ends == GONE:
            got = self.some(client, exchange)
            self.hang_up(number)
            exchange.go.set()
            return got
        answer = client.answer()
        if answer.end != "whole" or answer.values(b"connection") == [b"close"]:
            self.hang_up(number)
        if answer.status != 200 or answer.end != "whole":
            return None
        return answer.body

    def some(self, client, exchange):
        """Return what comes of an answer that does not end: all that is said, if it is streamed."""
        exchange.arrived.wait(0.2)
        client.sock.settimeout(0.05)
        got, text = b"", json.dumps(exchange.said.text)[1:-1].encode()
        with suppress(ConnectionError, TimeoutError):
            while data := client.sock.recv(1 << 16):
                got += data
                tokens = {*TOKEN.findall(got.decode())}
                if b"200 OK" in got and text in got and exchange.said.tokens <= tokens:
                    break
        return got.partition(b"\r\n\r\n")[2] if b" 200 OK" in got else None


@pytest.fixture
def model():
    found = Model()
    yield found
    assert not found.errors
    found.close()


def started(model, folder, *options):
    """Start a proxy before ``model``."""
    folder.joinpath("config.toml").write_text(RULE)
    given = ("--upstream", model.url, "--config", "config.toml", "--keep-thinking", "yes")
    return Proxy(folder, *given, *options, CACHEPROXY_BLOCK="").__enter__()


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_each_person_has_their_own_and_all_of_it(model, tmp_path, options):
    """Twins, forks, retries and forgetting, whatever tells persons apart."""
    proxies = 2 if options == TWO else 1
    start = partial(started, model, tmp_path, *(options if proxies == 1 else ()))
    wrong, crossed, found, shown = Counter(), Counter(), Counter(), []
    worlds = max(1, TURNS // EACH // len(OPTIONS))
    for seed in range(worlds):
        first = OPTIONS.index(options) + seed * len(OPTIONS)
        ways = [WAYS[(7 * first + 37 * at) % len(WAYS)] for at in range(5)]
        with contextlib.closing(Wired(f"{seed} {options}", ways, model, start, proxies)) as world:
            world.forgets = "--memory" in options
            world.populate()
            for _ in range(EACH):
                world.step()
        wrong += world.wrong
        crossed += world.crossed
        found += world.found
        shown += world.shown
    assert (dict(wrong), dict(crossed), shown[:20]) == ({}, {}, [])
    assert found["pinned B"] > worlds * EACH / 25, found
    # Where a twin's answer was equal, or nobody knows it, there is no telling whose value is meant.
    assert found["first value not put back"] <= max(3, worlds * EACH / 1_000), found
    assert found["told B"] > worlds * EACH / 25, found
    assert found["joined"] > worlds * EACH / 100, found
    if "--placement" not in options:  # the template is not asked then
        assert found["reasoning"] > worlds * EACH / 25, found


def test_each_name_tells_two_apart(model, tmp_path):
    """By any header, value of the query, or member of the body that may name a person."""
    plain, named = (one for one in KINDS if one.name in ("plain", "named"))
    with contextlib.closing(Wired(0, WAYS, model, partial(started, model, tmp_path))) as world:
        for one, _ in world.pairs:

            def say(*talks):
                for talk in talks:
                    talk.items.append({"role": "user", "content": "hi"})
                    world.send(talk, said=Said("Done.", world.canary(talk, "R")))
                    world.change(talk)

            mine = world.add(plain, one)
            theirs = world.twin_of(mine, same_id=True)
            say(mine, theirs, mine, theirs)
            # In a session with one id, the twin goes on with what the other one was told.
            mine = world.add(named, one)
            say(mine)
            mine.items.append({"role": "user", "content": "go on"})
            gone = world.abandon(mine, Said("Done.", world.canary(mine, "R")))
            theirs = world.mirror(mine)
            world.send(theirs, frees=gone, said=Said("Done.", world.canary(theirs, "R")))
            say(theirs)
    assert (dict(world.wrong), dict(world.crossed), world.shown) == ({}, {}, [])
    assert world.found["pinned B"] > len(WAYS)
    assert world.found["reasoning"] > len(WAYS)
