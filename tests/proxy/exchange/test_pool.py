"""Which server a turn of a conversation goes to, with servers as a configuration makes them."""

from dataclasses import replace
from importlib.metadata import entry_points

from twisted.internet.testing import MemoryReactorClock

from cacheproxy.config import Config
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.kinds.profile import UNKNOWN, ServerFacts
from cacheproxy.core.route.facts import RequestKind
from cacheproxy.tables import RouteTable, UpstreamTable
from cacheproxy.tap import ProcessParts, arrange
from tests.core.route.builders import asking, found

URLS = {name: f"http://127.0.0.1:{9001 + n}" for n, name in enumerate(("big", "big2", "big3"))}
BLOCKED = tuple(entry.name for entry in entry_points(group="cacheproxy"))
SESSIONS = [Session("claude", f"s{number}") for number in range(20)]


def config_of(**settings):
    """A configuration without client packages, which take a quarter of a second."""
    return Config(state_dir="none", poll=0, block=BLOCKED, **settings)


class Pool:
    """Servers, and the store that their conversations are in."""

    def __init__(self, *routes, names=tuple(URLS), **keys):
        tables = tuple(UpstreamTable(name, URLS[name], **keys.get(name, {})) for name in names)
        self._config = config_of(upstreams=tables, route=routes)
        self.process = ProcessParts(MemoryReactorClock(), self._config)
        self.store = self.process.store
        self.reload(self._config)

    def reload(self, config=None):
        """Go on with what another configuration says, or the first again."""
        self.servers = arrange(self.process, config or self._config).servers

    def choose(self, session, body, *, tokens=1000):
        """Choose for a turn, which is answered; return where, the next choice, where it was."""
        request, turn = found(body, session, store=self.store)
        chosen = self.servers.choose(Prepared(request, turn=turn))
        place = self.store.begin(turn, request)
        self.servers.settle(chosen, chosen.servers[0], turn, place.lane)
        assert turn.prompt is not None
        url = chosen.servers[0].upstream.url.text
        before = Before(turn.prompt, turn.prompt, tokens=tokens, upstream=url)
        self.store.end(session, place, before)
        first, *rest = (server.name for server in chosen.servers)
        return first, rest[0] if rest else None, chosen.was

    def choose_for_no_session(self):
        asked = Prepared(found({}, path="/v1/embeddings")[0])
        return self.servers.choose(asked).servers[0].name

    def server(self, name):
        return next(one for one in self.servers.all if one.name == name)

    def up(self, *names, is_up=True):
        for name in names:
            self.server(name).health.set(is_up=is_up)

    def down(self, *names):
        self.up(*names, is_up=False)

    def know(self, name, **facts):
        """Have a server say of itself what it is."""
        self.server(name).profiling.beliefs.learn(replace(UNKNOWN, **facts), ())


def test_a_conversation_goes_on_where_it_is():
    """Also once it was answered elsewhere: it does not go back."""
    pool = Pool()
    for session in SESSIONS:
        home, following, was = pool.choose(session, asking())
        assert was == ""
        pool.down(home)
        second, _, was = pool.choose(session, asking(answers=("a",)))
        assert (second, was) == (following, home)
        pool.up(home)
        assert pool.choose(session, asking(answers=("a", "b")))[::2] == (second, second)


def test_a_conversation_is_where_it_was_last_though_there_was_but_one_for_a_while():
    """By a reload from several upstreams to one of them, and back."""
    pool = Pool()
    for session in SESSIONS[:3]:
        pool.reload()
        first = pool.choose(session, asking())[0]
        other = next(name for name in URLS if name != first)
        pool.reload(config_of(upstreams=(UpstreamTable(other, URLS[other]),)))
        answers = ["a"]
        for was in (first, other):
            assert pool.choose(session, asking(answers=answers)) == (other, None, was)
            answers.append("b")
        pool.reload()
        assert pool.choose(session, asking(answers=answers))[2] == other
        assert pool.choose(session, asking(answers=[*answers, "d"]))[0] == other


def test_a_conversation_stays_where_it_is_though_its_server_gets_another_name():
    """By a reload from one upstream without a name to several."""
    pool = Pool()
    for number, session in enumerate(SESSIONS[:6]):
        name = tuple(URLS)[number % 3]
        pool.reload(config_of(upstream=URLS[name]))
        assert pool.choose(session, asking()) == ("", None, "")
        pool.reload()
        assert pool.choose(session, asking(answers=("a",)))[0] == name


def test_subagents_begin_where_their_root_is():
    pool = Pool()
    root, agent = Session("claude", "r"), Session("claude", "r:agent")
    home = pool.choose(root, asking())[0]
    pool.down(home)
    other = pool.choose(root, asking(answers=("a",)))[0]
    pool.up(home)
    assert pool.choose(agent, asking("look at this"))[0] == other != home


def test_a_prefix_is_gone_with_the_server_that_had_it():
    """One that was restarted: the conversation goes where its key belongs."""
    pool = Pool()
    for name in URLS:
        pool.know(name, start="1")
    first = pool.choose(SESSIONS[0], asking())[0]
    pool.down(first)
    second = pool.choose(SESSIONS[0], asking(answers=("a",)))[0]
    pool.up(first)
    pool.know(second, start="2")
    assert pool.choose(SESSIONS[0], asking(answers=("a", "b")))[0] == first


def test_a_title_does_not_take_its_conversation_with_it():
    """Though it came first, and its route leads to a server that the other's leads to as well."""
    titles = RouteTable(("big3",), kind=RequestKind.TITLE)
    pool = Pool(titles, RouteTable(tuple(URLS), name="work"))
    homes = set()
    for session in SESSIONS:
        title = asking(system="Generate a concise title.", tools=False)
        assert pool.choose(session, title)[:2] == ("big3", None)
        home, _, was = pool.choose(session, asking("x"))
        assert was == ""
        homes.add(home)
    assert homes == set(URLS)


def test_a_route_whose_upstreams_are_too_dear_is_passed_over():
    routes = RouteTable(("big",), max_cost=0.01), RouteTable(("big2",))
    pool = Pool(*routes, big={"cost_in": 3.0, "remote": True})
    assert pool.choose(SESSIONS[0], asking("word " * 400))[0] == "big"
    assert pool.choose(SESSIONS[1], asking("word " * 40_000))[0] == "big2"


def test_a_fallback_is_told_of_once(log):
    """And again after the others were up; also for a request without a conversation."""
    for asked in (asking("new"), None):
        pool, told = Pool(big3={"fallback": True, "remote": True}), len(log)
        for is_up in (False, False, True, False):
            pool.up("big", "big2", is_up=is_up)
            for session in SESSIONS[:3]:
                home = pool.choose(session, asked)[0] if asked else pool.choose_for_no_session()
                assert is_up or home == "big3"
        assert [line for line in log[told:] if "requests go to" in line] == 2 * [
            "all other upstreams are down: requests go to big3, which is remote"
        ]


def test_servers_of_one_pool_that_serve_different_models_are_told_of():
    """Those of which nothing is known do not count."""
    pool = Pool(RouteTable(("big", "big2"), name="work"), RouteTable(("big3",)))
    for name, model in (("big", "a"), ("big3", "c"), ("big2", "b")):
        assert pool.servers.warnings() == []
        pool.know(name, server=ServerFacts("llama-server", model=model))
    assert pool.servers.warnings() == [
        "the upstreams of route work serve different models: big a, big2 b"
    ]


def test_a_request_without_a_conversation_goes_to_one_that_is_up():
    """A list of models, say; the same one each time."""
    pool = Pool()
    first = pool.choose_for_no_session()
    assert pool.choose_for_no_session() == first
    pool.down(first)
    assert pool.choose_for_no_session() != first
