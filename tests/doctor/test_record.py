"""What came through the proxy: the record it serves, its clients, turns and failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.prompt.request import Request
from cacheproxy.doctor import proxy as proxies
from cacheproxy.doctor import record
from cacheproxy.doctor.proxy import TrafficLook
from cacheproxy.doctor.record import Record
from cacheproxy.plugin.packages import Packages
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.web import exchanges as page
from tests.doctor import builders
from tests.doctor.builders import seen, server_look

NOW = 1_000_000.0


def exchange(number, client="claude", turn=1, reused=17_000, judged=Judgement.OK):
    return Exchange(
        received=Request("POST", "/v1/messages"),
        sent=None,
        reports=(),
        session=Session(client, "3f9a"),
        turn=turn,
        upstream="http://localhost:8080",
        status=200,
        outcome=Outcome.COMPLETE,
        usage=Usage(18_000, reused, 5),
        wall=NOW - 120,
        first_byte=0.1,
        seconds=0.2,
        bytes_down=9,
        number=number,
        verdict=Verdict(judged, Reason.SYSTEM_CHANGED if judged is Judgement.BREAK else None),
    )


def traffic(kept):
    """The finding where the server has done much."""
    look = TrafficLook(server_look(evaluated=900_000), kept)
    (finding,) = proxies.check_traffic("http://127.0.0.1:8081", "http://h:8080", look, look, 0.0)
    return finding


@pytest.fixture
def read(peer):
    """Read the record of a proxy with these exchanges, from the page that the proxy serves."""

    def read(*exchanges):
        said = asyncio.run(page.exchanges(exchanges))
        return record.read(peer({record.PAGE: said}).url, {})

    return read


def test_the_record_leaves_out_what_is_no_agent_s(read):
    """Our own prompts, and requests without a prompt."""
    kept = read(exchange(1), exchange(2, client="cacheproxy-doctor"), exchange(3, turn=0))
    assert [one.number for one in kept.seen] == [1]
    assert kept.seen[0].client == "claude"
    assert (kept.seen[0].prompt, kept.seen[0].reused) == (18_000, 17_000)
    assert (kept.seen[0].status, kept.seen[0].path) == (200, "/v1/messages")
    assert not kept.seen[0].failed


def test_what_the_server_said_of_a_failure_is_on_one_line(peer):
    """It is in the record of a proxy that knows it."""
    page = {"turn": 1, "status": 400, "error": "System message\n must be\tfirst. " + "x" * 999}
    (one,) = record.read(peer({record.PAGE: {"exchanges": [page]}}).url, {}).seen
    assert one.failed
    assert one.said.startswith("System message must be first. xxx")
    assert len(one.said) == 200
    page["error"] = "Unable to ...\nraise_exception('System me...\nError: Jinja Exception: It must."
    (one,) = record.read(peer({record.PAGE: [page]}).url, {}).seen
    assert one.said == "It must."
    (mute,) = record.read(peer({record.PAGE: [{"turn": 1, "status": 502}]}).url, {}).seen
    assert (mute.failed, mute.said) == (True, None)


@pytest.mark.parametrize("page", [(404, {}), "text", {"exchanges": 5}, 7, None])
def test_a_proxy_without_a_record(peer, page):
    """Nothing is claimed."""
    kept = record.read(peer({record.PAGE: page}).url, {})
    assert kept is None
    finding = traffic(kept)
    assert finding.state is FindingState.WARN
    assert "keeps no record" in finding.text


@pytest.mark.parametrize(
    "page", [[5, {}], [{"number": "x", "usage": 5, "wall": None, "turn": True}], {"exchanges": []}]
)
def test_a_strange_record_has_no_exchange(peer, page):
    """Whoever answers there."""
    assert record.read(peer({record.PAGE: page}).url, {}).seen == ()


def test_agents_that_come_through(read):
    """How many requests; who and when."""
    kept = read(exchange(1), exchange(2, turn=2), exchange(3, client="cline"))
    finding = traffic(kept)
    assert (finding.state, finding.text[:10]) == (FindingState.OK, "3 requests")
    (seen,) = record.check_agents(kept, NOW)
    assert seen.text == (
        "seen: claude (2 requests in 1 session, the last 2 min ago), "
        "cline (1 request in 1 session, the last 2 min ago)"
    )
    assert record.check_agents(Record(()), NOW) == []


def test_turns_that_lost_the_cache(read):
    """With the reasons; a problem if they are most."""
    lost = [exchange(n, turn=n, reused=33, judged=Judgement.BREAK) for n in (2, 3)]
    kept = [exchange(n, turn=n) for n in (4, 5, 6)]
    _, few = record.check_agents(read(exchange(1, judged=Judgement.COLD), *lost, *kept), NOW)
    assert few.state is FindingState.WARN
    assert few.fix == "cacheproxy diagnose 3   says where and why"
    assert few.text == (
        "2 of the last 5 follow-up turns lost the cache: system_changed 2; "
        "39.9 % of their tokens were evaluated again"
    )
    _, most = record.check_agents(read(*lost, *kept[:1]), NOW)
    assert most.state is FindingState.FAIL


@pytest.mark.parametrize(
    ("lost", "state"),
    [
        (91, FindingState.OK),
        (180, FindingState.OK),
        (181, FindingState.WARN),
        (904, FindingState.FAIL),
    ],
)
def test_a_break_weighs_what_it_cost(lost, state):
    """However many there were."""
    broken = seen(2, 2, 1807, 1700, "BREAK", lost=lost)
    _, turns = record.check_agents(Record((broken,) * 3), NOW)
    assert turns.state is state


def test_what_was_lost_comes_with_the_record(read):
    """Of an older proxy that does not say it, all that was evaluated is taken for lost."""
    lost = Verdict(Judgement.BREAK, Reason.EVICTED, lost=TokenCount(900, "measured"))
    kept = read(replace(exchange(2, turn=2, reused=17_000), verdict=lost))
    assert kept.seen[0].lost == 900
    assert kept.lost_share == 0.05
    assert Record((replace(kept.seen[0], lost=None),)).lost_share == pytest.approx(1 / 18)


SYSTEM = "System message must be at the beginning."


def asked(number, client="claude", status=200, said=None, **more):
    more |= {"client": client, "status": status, "said": said, "wall": NOW - 120}
    return builders.seen(number, number, None, None, "-", path="/v1/messages", **more)


def requests(*kept, kind=""):
    return record.check_requests(Record(kept), NOW, kind, Packages.load().clients)


def test_a_client_whose_requests_are_all_refused():
    """The server's words, and where to put what it refuses."""
    (found,) = requests(*(asked(n, status=400, said=SYSTEM) for n in range(1, 29)))
    assert found.state is FindingState.FAIL
    assert found.text == (
        "all of the last 10 requests of claude failed, the last 2 min ago on /v1/messages, with "
        f'HTTP 400: "{SYSTEM}"'
    )
    assert "--placement user" in found.fix


@pytest.mark.parametrize(
    ("status", "said", "fix"),
    [
        (500, "out of memory", "cacheproxy diagnose 3"),
        (502, None, "cacheproxy diagnose 3"),
        (400, "the request exceeds the available context size", "cacheproxy env claude"),
        (401, "Invalid API Key", "the model server's key"),
    ],
)
def test_the_turn_is_named_by_its_number(status, said, fix):
    """Unless the server's words say what is wrong."""
    (found,) = requests(asked(1), asked(2), asked(3, status=status, said=said))
    assert found.state is FindingState.FAIL
    assert found.text.startswith("1 of the last 3 requests of claude failed")
    assert f"HTTP {status}" in found.text
    assert fix in found.fix


@pytest.mark.parametrize(
    ("kind", "flag"),
    [("llama-server", "-c larger for llama-server, or"), ("vLLM", "--max-model-len larger for")],
)
def test_a_larger_context_is_asked_for_as_the_server_spells_it(kind, flag):
    """Nothing is said of the flags of others."""
    (found,) = requests(asked(1, status=400, said="exceed_context_size_error"), kind=kind)
    assert found.fix.startswith(flag)


def test_an_only_request_is_not_called_the_last():
    """When and where it failed follows."""
    (found,) = requests(asked(7, status=500))
    assert found.text.startswith("the only request of claude failed 2 min ago on /v1/")


def test_a_failure_that_was_followed_by_success_is_a_warning():
    """It is not how things stand now."""
    (found,) = requests(asked(1), asked(2, status=503), asked(3), asked(4))
    assert found.state is FindingState.WARN
    assert found.text.startswith("1 of the last 4 requests failed, the last 2 min ago")


def test_one_client_s_success_does_not_hide_another_s_failures():
    """Each is looked at by itself."""
    broken = [asked(n, status=400) for n in (1, 2, 3)]
    works = [asked(n, "opencode") for n in range(4, 20)]
    (found,) = requests(*broken, *works)
    assert found.state is FindingState.FAIL
    assert "all of the last 3 requests of claude" in found.text
    assert Record((*broken, *works)).failing.keys() == {"claude"}


def test_an_answer_that_broke_off_has_failed_and_a_client_that_left_has_not():
    """Though both have the status 200, or none."""
    (found,) = requests(asked(1, outcome="upstream failed"))
    assert found.text.endswith("with an answer that broke off")
    assert requests(asked(1, outcome="client left")) == []
    assert requests(replace(asked(1, outcome="client left"), status=None)) == []
    assert record.check_requests(None, NOW) == []
