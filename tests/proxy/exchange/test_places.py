"""Conversations at one server that has a place for only one of them: it stays with one of them."""

import itertools
import json
import threading
import time

import pytest

from tests.proxy.exchange.test_admission import DENSITY, Scripted, asks, llama, running
from tests.proxy.exchange.test_holding import TYPE
from tests.proxy.harness import eventually, whole

OPENCODE, KILO = b"User-Agent: opencode/1.2", b"User-Agent: kilo/7.7"
PLUGINS = {"CACHEPROXY_BLOCK": ""}
"""The clients' packages know which of them name the conversation that an agent works for."""
TOKENS, PAUSE, TURNS = 2000, 0.2, 10
SHORT, LONG = 3000, 65_536
"""Tokens of a context with room for one of the conversations, and for all."""


class Places(Scripted):
    """A llama-server of one slot, that keeps the last prompt, or all if it has a RAM cache.

    It renders prompts and counts tokens, so that what was dropped is proven.
    """

    def __init__(self, context, *, has_ram=False, answers=0.05):
        pages = llama(1)
        props = json.loads(pages[b"GET /props"])
        props["default_generation_settings"]["n_ctx"] = context
        pages[b"GET /props"] = json.dumps(props).encode()
        super().__init__(pages=pages, answers=answers)
        self.has_ram, self.slot = has_ram, set()

    def __call__(self, peer, received):
        page = received.line.split()[1]
        if page not in (b"/apply-template", b"/tokenize"):
            super().__call__(peer, received)
            return
        asked = json.loads(received.body)
        if page == b"/tokenize":
            made = {"tokens": [*range(len(asked["content"]) // DENSITY)]}
        else:
            made = {"prompt": "".join(each["content"] for each in asked["messages"])}
        peer.send(whole(json.dumps(made).encode(), TYPE))

    def found(self, texts):
        return self.known if self.has_ram else self.slot

    def learn(self, texts):
        super().learn(texts)
        self.slot = {"".join(texts[:end]) for end in range(1, len(texts) + 1)}


def turn(proxy, name, number=0, *fields):
    """Begin a turn of ``name``, whose prompt has nothing in common with another's."""
    head = f"{name} agent " * (TOKENS * DENSITY // (len(name) + 7))
    return asks(
        proxy.address,
        name,
        *["more"] * number,
        head=head,
        fields=fields if KILO in fields else (OPENCODE, *fields),
    )


def talk(proxy, name, turns, *fields, first=0):
    for number in range(first, first + turns):
        assert turn(proxy, name, number, *fields).answer().end == "whole"
        time.sleep(PAUSE)


def by_turns(proxy):
    """Two conversations side by side."""
    threads = [threading.Thread(target=talk, args=(proxy, name, TURNS)) for name in ("ann", "bob")]
    for thread in threads:
        thread.start()
        time.sleep(PAUSE)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("context", [SHORT, LONG], ids=["short memory", "seen to be dropped"])
def test_a_place_stays_with_its_conversation_until_that_is_idle(start, context):
    """Whether the prompts are too long for the memory, or a turn shows that there is no RAM."""
    by_turns(proxy := start(server := Places(context), **PLUGINS))
    changes = sum(one != other for one, other in itertools.pairwise(server.order))
    assert changes < TURNS, "at most half of those by turns, until their pauses are known"
    assert sum(server.evaluated.values()) < TURNS * TOKENS * 1.1
    assert "s for opencode/ann" in proxy.output


def test_where_the_memory_makes_it_needless_nobody_waits(start):
    """Short, with a RAM cache: once a turn has shown that, and at once where there is room."""
    by_turns(proxy := start(Places(LONG, has_ram=True), **PLUGINS))
    assert "waited" not in proxy.output
    by_turns(proxy := start(server := Places(SHORT, has_ram=True), **PLUGINS))
    mark = proxy.mark()
    talk(proxy, "ann", 1, first=TURNS)
    talk(proxy, "bob", 1, first=TURNS)
    assert not [line for line in proxy.lines[mark:] if "waited" in line]
    assert sum(server.evaluated.values()) < 3 * TOKENS


PARENT = b"X-Parent-Session-Id: ann"
WAITS = {
    "it runs": ("ann", True, (), "bob", (), True),
    "its next turn is due": ("ann", False, (), "bob", (), True),
    "its own subagent runs": ("bob", True, (PARENT,), "ann", (), False),
    "whom it works for runs": ("ann", True, (), "bob", (PARENT,), False),
    "whose parenthood is unknown, it runs": ("ann", True, (KILO,), "bob", (KILO,), True),
    "whose parenthood is unknown, it is due": ("ann", False, (KILO,), "bob", (KILO,), False),
}


@pytest.mark.parametrize("case", WAITS)
def test_who_waits_for_a_place(start, case):
    """Of two conversations for which there is no room; a wait ends with what it is for."""
    name, is_running, fields, other, others, waits = WAITS[case]
    proxy = start(server := Places(SHORT, answers=0.0), "--crowd-wait", "5", **PLUGINS)
    talk(proxy, other, 1, *others)
    talk(proxy, name, 4, *fields)
    mark = proxy.mark()
    if is_running:
        server.gate.clear()
        first = turn(proxy, name, 4, *fields)
        eventually(lambda: running(proxy))
    second = turn(proxy, other, 1, *others)
    if is_running:
        label = f"{'kilo' if KILO in fields else 'opencode'}/{name}" if waits else ""
        eventually(lambda: label in [each["waits_for"] for each in running(proxy)][1:])
        server.gate.set()
        assert first.answer().end == "whole"
    assert second.answer().end == "whole"
    line = proxy.wait_for(f"/{other}", mark)
    assert ("waited" in line) == waits


def test_who_waits_for_a_place_goes_at_the_latest_when_its_time_is_over(start):
    proxy = start(server := Places(SHORT, answers=0.0), "--crowd-wait", "1", **PLUGINS)
    talk(proxy, "ann", 1)
    talk(proxy, "bob", 1)
    mark = proxy.mark()
    server.gate.clear()
    first, second = turn(proxy, "ann", 1), turn(proxy, "bob", 1)
    eventually(lambda: not any(each["waits_for"] for each in running(proxy)[1:]))
    server.gate.set()
    assert first.answer().end == second.answer().end == "whole"
    assert "waited 1." in proxy.wait_for("/bob", mark)


def test_what_slots_share_is_not_learned(start):
    """It is known, whatever a request reused that was sent beside one with the same head."""
    proxy = start(Places(SHORT, answers=1.5), "--crowd-wait", "1")
    assert asks(proxy.address, "one", head="Another head. " * 600).answer().end == "whole"
    first = asks(proxy.address, "two")
    eventually(lambda: running(proxy))
    second = asks(proxy.address, "three")
    assert {first.answer().end, second.answer().end} == {"whole"}
    proxy.wait_for("client/three")
    assert "waited 1.0s for client/two" in proxy.output
    assert "serves other requests" not in proxy.output
