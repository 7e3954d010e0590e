"""Which server a turn of a conversation goes to, with servers as a configuration makes them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from twisted.internet.testing import MemoryReactorClock

from cacheproxy.config import Config
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.route.facts import RequestKind
from cacheproxy.core.servers.profile import UNKNOWN, ServerFacts
from cacheproxy.tables import RouteTable, UpstreamTable
from cacheproxy.tap import ProcessParts, arrange
from tests.core.route.builders import asking, found
from tests.logs import looking

NAMES = ("big", "big2", "big3")
TITLE = "Generate a concise title."


class Pool:
    """Servers, and the store that their conversations are in."""

    def __init__(self, *routes, process=None, names=NAMES, **keys):
        tables = tuple(
            UpstreamTable(
                name, f"http://127.0.0.1:{9001 + NAMES.index(name)}", **keys.get(name, {})
            )
            for name in names
        )
        config = Config(upstreams=tables, route=routes, state_dir="none", poll=0)
        self.process = process or ProcessParts(MemoryReactorClock(), config)
        self.servers, self.store = arrange(self.process, config).servers, self.process.store

    def with_only(self, name):
        """The same proxy, with one of the servers alone."""
        return Pool(process=self.process, names=(name,))

    def with_servers(self, servers):
        """The same proxy, with other servers."""
        other = Pool(process=self.process)
        other.servers = servers
        return other

    def choose(self, session, body, *, tokens=1000):
        """Choose for a turn, which is answered; return the names, and where it was."""
        request, turn = found(body, session, store=self.store)
        chosen = self.servers.choose(Prepared(request, turn=turn))
        place = self.store.begin(turn, request)
        self.servers.settle(chosen, chosen.servers[0], turn, place.lane)
        assert turn.prompt is not None
        url = chosen.servers[0].upstream.url.text
        before = Before(turn.prompt, turn.prompt, tokens=tokens, upstream=url)
        self.store.end(session, place, before)
        return [server.name for server in chosen.servers], chosen.was

    def server(self, name):
        return next(one for one in self.servers.all if one.name == name)

    def know(self, name, **facts):
        """Have a server say of itself what it is."""
        self.server(name).profiling._base = replace(UNKNOWN, **facts)


@pytest.fixture
def said():
    """What was logged."""
    events = []
    with looking(events.append):
        yield lambda: [event["log_format"].format(**event) for event in events]


SESSIONS = [Session("claude", f"s{number}") for number in range(20)]


def test_a_conversation_goes_on_where_it_is():
    """Also once it was answered elsewhere: it does not go back."""
    pool = Pool()
    for session in SESSIONS:
        first, was = pool.choose(session, asking())
        assert was == ""
        pool.server(first[0]).health.set(is_up=False)
        second, was = pool.choose(session, asking(answers=("a",)))
        assert (second[0], was) == (first[1], first[0])
        pool.server(first[0]).health.set(is_up=True)
        third, was = pool.choose(session, asking(answers=("a", "b")))
        assert (third[0], was) == (second[0], second[0])


def test_a_conversation_is_where_it_was_last_though_there_was_but_one_for_a_while():
    """By a reload from several upstreams to one of them, and back."""
    pool = Pool()
    for session in SESSIONS[:6]:
        first = pool.choose(session, asking())[0][0]
        other = next(name for name in NAMES if name != first)
        alone = pool.with_only(other)
        assert alone.choose(session, asking(answers=("a",))) == ([other], first)
        assert alone.choose(session, asking(answers=("a", "b"))) == ([other], other)
        assert pool.choose(session, asking(answers=("a", "b", "c")))[1] == other
        assert pool.choose(session, asking(answers=("a", "b", "c", "d")))[0][0] == other


def test_a_conversation_stays_where_it_is_though_its_server_gets_another_name():
    """By a reload from one upstream without a name to several."""
    pool = Pool()
    for number, session in enumerate(SESSIONS):
        config = Config(upstream=f"http://127.0.0.1:{9001 + number % 3}", state_dir="none", poll=0)
        alone = pool.with_servers(arrange(pool.process, config).servers)
        assert alone.choose(session, asking()) == ([""], "")
        assert pool.choose(session, asking(answers=("a",)))[0][0] == NAMES[number % 3]


def test_subagents_begin_where_their_root_is():
    """Wherever it has gone."""
    pool = Pool()
    root, agent = Session("claude", "r"), Session("claude", "r:agent")
    home = pool.choose(root, asking())[0][0]
    pool.server(home).health.set(is_up=False)
    other = pool.choose(root, asking(answers=("a",)))[0][0]
    pool.server(home).health.set(is_up=True)
    assert other != home
    assert pool.choose(agent, asking("look at this"))[0][0] == other


def test_a_prefix_is_gone_with_the_server_that_had_it():
    """One that was restarted: the conversation goes where its key belongs."""
    pool = Pool()
    session = SESSIONS[0]
    for name in NAMES:
        pool.know(name, start="1")
    first = pool.choose(session, asking())[0][0]
    pool.server(first).health.set(is_up=False)
    second = pool.choose(session, asking(answers=("a",)))[0][0]
    pool.server(first).health.set(is_up=True)
    pool.know(second, start="2")
    assert pool.choose(session, asking(answers=("a", "b")))[0][0] == first


def test_a_title_does_not_take_its_conversation_with_it():
    """Though it came first, and its route leads to a server that the other's leads to as well."""
    pool = Pool(
        RouteTable(("big3",), kind=RequestKind.TITLE),
        RouteTable(("big", "big2", "big3"), name="work"),
    )
    homes = set()
    for session in SESSIONS:
        title = asking(system=TITLE, tools=False)
        assert pool.choose(session, title)[0] == ["big3"]
        home, was = pool.choose(session, asking("x"))
        assert was == ""
        homes.add(home[0])
    assert homes == set(NAMES)


def test_a_route_whose_upstreams_are_too_dear_is_passed_over():
    """Then the next one is taken."""
    pool = Pool(
        RouteTable(("big",), max_cost=0.01),
        RouteTable(("big2",)),
        big={"cost_in": 3.0, "remote": True},
    )
    assert pool.choose(SESSIONS[0], asking("word " * 400))[0] == ["big"]
    assert pool.choose(SESSIONS[1], asking("word " * 40_000))[0] == ["big2"]


def test_a_fallback_is_told_of_once(said):
    """And again after the others were up."""
    pool = Pool(big3={"fallback": True, "remote": True})
    for is_up in (False, False, True, False):
        for name in ("big", "big2"):
            pool.server(name).health.set(is_up=is_up)
        for session in SESSIONS[:3]:
            home = pool.choose(session, asking("new"))[0][0]
            assert is_up or home == "big3"
    told = [line for line in said() if "requests go to" in line]
    assert told == 2 * ["all other upstreams are down: requests go to big3, which is remote"]


def test_a_fallback_is_told_of_for_a_request_without_a_conversation(said):
    """It leaves this network like any other."""
    pool = Pool(big3={"fallback": True, "remote": True})
    for name in ("big", "big2"):
        pool.server(name).health.set(is_up=False)
    for _ in range(2):
        chosen = pool.servers.choose(Prepared(found({}, path="/v1/embeddings")[0]))
        assert chosen.servers[0].name == "big3"
    told = [line for line in said() if "requests go to" in line]
    assert told == ["all other upstreams are down: requests go to big3, which is remote"]


def test_servers_of_one_pool_that_serve_different_models_are_told_of():
    """Those of which nothing is known do not count."""
    pool = Pool(RouteTable(("big", "big2"), name="work"), RouteTable(("big3",)))
    assert pool.servers.warnings() == []
    pool.know("big", server=ServerFacts("llama-server", model="a"))
    pool.know("big3", server=ServerFacts("llama-server", model="c"))
    assert pool.servers.warnings() == []
    pool.know("big2", server=ServerFacts("llama-server", model="b"))
    assert pool.servers.warnings() == [
        "the upstreams of route work serve different models: big a, big2 b"
    ]


def test_a_request_without_a_conversation_goes_to_one_that_is_up():
    """A list of models, say; the same one each time."""
    pool = Pool()
    first = pool.servers.choose(Prepared(found({})[0])).servers[0]
    assert pool.servers.choose(Prepared(found({})[0])).servers[0] is first
    first.health.set(is_up=False)
    assert pool.servers.choose(Prepared(found({})[0])).servers[0] is not first
