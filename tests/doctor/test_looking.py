"""How doctor comes to know the proxy: its health page, its record, its To do."""

import asyncio
from dataclasses import replace

import pytest

from cacheproxy.config import Config
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.diagnose.report import report
from cacheproxy.core.judge.advice import Advice, advice
from cacheproxy.core.kinds.crowds import Crowd
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.kinds.profile import UNKNOWN, Memory, Profile, ServerFacts
from cacheproxy.core.prompt.request import Request
from cacheproxy.doctor import facts as asking
from cacheproxy.doctor import record
from cacheproxy.http_client import HEALTH, Site
from cacheproxy.observe import failures
from cacheproxy.observe.crowd import SeenCrowd
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import configured
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.web import exchanges as page
from cacheproxy.web.answers import todo
from tests.doctor.builders import NOW, SERVER, recorded, seen
from tests.proxy.harness import Proxy


@pytest.fixture
def proxy_of(peer):
    """Look at a proxy with this health page, and with these figures."""

    def proxy_of(health, data=None):
        pages = {HEALTH: health} | ({} if data is None else {"/_cacheproxy/data": data})
        return asking.look_at_proxy(peer(pages).url, {})

    return proxy_of


@pytest.mark.llama
def test_the_real_proxy(proxy, llama):
    found = asking.look_at_proxy(proxy.url, {})
    assert (found.is_up, found.upstream, found.reachable) == (True, llama.url, None)
    assert "claude-billing-header" in found.rules


@pytest.mark.parametrize("health", [(404, {}), {}, [], "x", {"version": 5, "upstream": {}}])
def test_another_server_is_told_apart(proxy_of, health):
    assert "is not a cacheproxy" in proxy_of(health).problem


def test_nobody_there(nobody):
    found = asking.look_at_proxy(nobody, {})
    assert found.problem == f"no proxy answers at {nobody}: Connection refused"
    assert asking.learned(Site(nobody), UNKNOWN) is UNKNOWN


@pytest.mark.parametrize("url", [5, "ftp://x", "http://[", None])
def test_a_health_page_that_names_no_upstream(proxy_of, url):
    found = proxy_of({"version": "9", "upstream": {"url": url}, "rules": ["a", 5]})
    assert (found.version, found.upstream, found.rules) == ("9", None, ("a",))


def test_a_proxy_that_asks_for_a_token(tmp_path):
    """Without it there is one thing to do; with it all is as ever."""
    token = {"X-Cacheproxy-Token": "a-secret"}
    arguments = ("--upstream", SERVER, "--interface", "0.0.0.0")
    with Proxy(tmp_path, *arguments, CACHEPROXY_TOKEN="a-secret") as proxy:
        url = f"http://127.0.0.1:{proxy.address[1]}"
        assert "CACHEPROXY_TOKEN" in asking.look_at_proxy(url, {}).fix
        assert asking.look_at_proxy(url, token).is_up
        assert record.read(url, token, NOW).rows == ()
        assert record.read(url, {}, NOW) is record.NO_RECORD


def test_of_several_upstreams_the_first_that_is_up_is_looked_at(proxy_of):
    """What the page tells of the first is not told of another."""
    known = {"profile": {"says": {}}, "placement": {"where": "inline"}, "thinking": {"says": "x"}}
    both = [
        {"name": name, "url": f"http://localhost:{port}", "state": state}
        for name, port, state in (("a", 1, "down"), ("b", 2, "up"))
    ]
    health = known | {"version": "9", "upstream": {"url": "http://localhost:1"}, "upstreams": both}
    found = proxy_of(health)
    assert (found.upstream, found.at, found.profile) == ("http://localhost:2", "b", None)
    assert (found.placement, found.keeps) == (None, "")
    both[0]["state"] = "up"
    found = proxy_of(health)
    assert (found.upstream, found.at, found.keeps) == ("http://localhost:1", "a", "x")


UNTOLD, REFUSED = alike(Late.UNKNOWN, ""), alike(Late.REFUSED, "/apply-template")


@pytest.mark.parametrize(
    ("placement", "known"),
    [
        ({"setting": "auto"} | REFUSED.as_dict(), REFUSED),
        (replace(REFUSED, refuses=("a",)).as_dict(), replace(REFUSED, refuses=("a",))),
        *((one, UNTOLD) for one in (None, 5, {}, {"late": "unknown", "says": ""})),
        (UNTOLD.as_dict() | {"system": 5}, UNTOLD),
    ],
)
def test_where_late_messages_go_is_told_by_the_page(proxy_of, placement, known):
    health = {"version": "9", "upstream": {}, "profile": {}, "placement": placement}
    assert proxy_of(health).profile.placement == known


def test_what_the_proxy_says_of_dropped_prompts(proxy_of):
    """A title that took the slot, say: what helps is told by its To do, and by nothing else."""
    dropped = Verdict(Judgement.BREAK, Reason.EVICTED)
    profile = Profile(server=ServerFacts("llama-server"), memory=Memory(has_ram=False))
    found = replace(
        report(Exchange(Request("POST", ""), number=6), dropped), advice=advice(dropped, profile)
    )
    top = {"number": 6, "reason": "evicted", "shape": None, "share": 0.4}
    sums = {"prompt": 9, "reused": 5, "evaluated": 4}
    cards = todo(profile, None, sums, [top, top | {"reason": "moved"}], lambda _: found)
    assert [card["id"] for card in cards] == ["evicted", "moved"]
    health = {"version": "9", "upstream": {"url": SERVER}}
    ((title, why),) = proxy_of(health, {"todo": cards}).evicted
    assert title == "The server had dropped the earlier prompt"
    assert why.startswith("llama-server: --cache-ram 8192: ")


LLAMA = Profile(server=ServerFacts("llama-server"), memory=Memory(slots=4, has_ram=True))
ONE_SLOT = "--parallel 1 --slot-prompt-similarity 0.9"


@pytest.mark.parametrize(
    ("crowd", "profile", "said"),
    [
        (Crowd.TURNS, LLAMA, "Conversations by turns lose their place to one another (2)"),
        (Crowd.SUBAGENTS, LLAMA, "Subagents and titles take the place of their main thread (2)"),
        (
            *(Crowd.TOGETHER, LLAMA),
            "Conversations that start together each have the same head read (2)",
        ),
        (Crowd.TURNS, Profile(server=ServerFacts("vLLM")), ""),
        (Crowd.TOGETHER, replace(LLAMA, memory=Memory(slots=1)), ""),
    ],
)
def test_the_setting_for_todays_crowd(proxy_of, crowd, profile, said):
    """It is told by the To do, and by doctor, instead of what helps one dropped prompt."""
    sums = {"prompt": 9, "reused": 5, "evaluated": 4}
    dropped = report(
        Exchange(Request("POST", ""), number=6), Verdict(Judgement.BREAK, Reason.EVICTED)
    )
    dropped = replace(dropped, advice=(Advice("a server", "a flag"),))
    top = {"number": 6, "reason": "evicted", "shape": None, "share": 0.4}
    seen_crowd = SeenCrowd(crowd, 2, 12_300, 7_300.0)
    cards = todo(profile, None, sums, [top], lambda _: dropped, crowd=seen_crowd)
    health = {"version": "9", "upstream": {"url": SERVER}}
    ((title, why),) = proxy_of(health, {"todo": cards}).evicted
    assert title == (said or "The server had dropped the earlier prompt")
    if not said:
        assert why == "a server: a flag"
        return
    about = "about " if crowd is Crowd.TOGETHER else ""  # by the size of heads, an estimate
    assert why.startswith(f"llama-server: {ONE_SLOT}: ")
    assert why.endswith(f"In the last 2 h it would have saved at most {about}12,300 tokens")


@pytest.fixture
def kept(peer):
    """The record of a proxy that answers so: with exchanges as the proxy serves them, or a page."""

    def kept(*answer, is_page=False):
        said = answer[0] if is_page else asyncio.run(page.exchanges(answer))
        return record.read(peer({record.PAGE: said}).url, {}, NOW)

    return kept


def exchange(number, client="claude", turn=1, **more):
    return Exchange(
        Request("POST", "/v1/messages"),
        session=Session(client, "3f9a"),
        turn=turn,
        upstream=SERVER,
        status=200,
        outcome=Outcome.COMPLETE,
        usage=Usage(18_000, 17_000, 5),
        wall=NOW - 120,
        number=number,
        **more,
    )


def test_the_record_leaves_out_what_is_no_agent_s(kept):
    """Our own prompts, and requests without a prompt."""
    lost = Verdict(Judgement.BREAK, Reason.EVICTED, lost=TokenCount(900, "measured"))
    found = kept(exchange(1, "cacheproxy-doctor"), exchange(2, turn=0), exchange(3, verdict=lost))
    (one,) = found.rows
    assert (one.number, one.client, one.status, one.has_failed) == (3, "claude", 200, False)
    assert (one.usage.prompt, one.usage.reused, one.lost) == (18_000, 17_000, 900)
    assert one.received.path == "/v1/messages"


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (400, "System message\n must be\tfirst. " + "x" * 999, "System message must be first. x"),
        (400, "Unable ...\nraise_exception('...\nError: Jinja Exception: It must.", "It must."),
        (502, None, ""),
    ],
)
def test_what_the_server_said_of_a_failure_is_on_one_line(kept, status, error, said):
    (one,) = kept({"exchanges": [{"turn": 1, "status": status, "error": error}]}, is_page=True).rows
    assert one.has_failed
    assert failures.said_of(one)[:31] == said
    assert len(failures.said_of(one)) <= 200


STRANGE = [[5, {}], [{"number": "x", "usage": 5, "wall": None, "turn": True}], {"exchanges": []}]


@pytest.mark.parametrize(
    ("answer", "remembers"),
    [
        *((one, False) for one in ((404, {}), "text", {"exchanges": 5}, 7, None)),
        *((one, True) for one in STRANGE),
    ],
)
def test_a_page_that_is_no_record(kept, answer, remembers):
    found = kept(answer, is_page=True)
    assert (found.rows, found.remembers) == ((), remembers)


def test_who_is_failing():
    tries = [seen(n, n, client="curl", status=400) for n in (1, 2, 3)]
    assert recorded(*tries[:1]).failing == {}
    assert recorded(*tries).failing.keys() == {"curl"}
    assert recorded(*tries, seen(4)).failing == {}


def test_what_the_proxy_would_refuse():
    with pytest.raises(PluginError, match="nobody"):
        configured(Config(enable=("nobody",)))


def test_a_server_that_wants_a_model_is_told_one(peer):
    """A router of llama-server, say: the first question is asked again with the model."""
    server = peer({"/apply-template": (400, {"error": "model name is missing"})})
    assert asking.learned(Site(server.url), UNKNOWN, model="m") is UNKNOWN
    assert server.asked == ["/apply-template"] * 2 + ["/tokenize"]
