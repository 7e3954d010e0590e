"""Whether the agent goes through the proxy: the record it serves, and the server's counters."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.server.status import Slot
from cacheproxy.doctor import proxy as proxies
from cacheproxy.doctor import record
from cacheproxy.doctor.finding import FindingState
from cacheproxy.doctor.proxy import TrafficLook
from cacheproxy.doctor.record import Record
from cacheproxy.web import exchanges as page
from tests.doctor.builders import seen, server_look

NOW = 1_000_000.0
PROXY, SERVER = "http://127.0.0.1:8081", "http://localhost:8080"


def did(tokens):
    return server_look(evaluated=tokens)


def held(task, tokens=0):
    return server_look(slots=[Slot(0, 65_536, tokens, busy=False, task=task)])


def exchange(number, client="claude", turn=1, reused=17_000, judged=Judgement.OK):
    return Exchange(
        received=Request("POST", "/v1/messages"),
        sent=None,
        reports=(),
        session=Session(client, "3f9a"),
        turn=turn,
        upstream=SERVER,
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


@pytest.fixture
def read(peer):
    """Read the record of a proxy with these exchanges, from the page that the proxy serves."""

    def read(*exchanges):
        said = asyncio.run(page.exchanges(exchanges))
        return record.read(peer({record.PAGE: said}).url, {})

    return read


def check(before, after=None, watched=0.0, proxy=PROXY):
    (finding,) = proxies.check_traffic(proxy, SERVER, before, after or before, watched)
    return finding


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
    finding = check(TrafficLook(did(900_000), kept))
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
    finding = check(TrafficLook(did(900_000), kept))
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


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (did(214_300), "214,300 prompt tokens since it started, but no agent request"),
        (held(7, 18_904), "slots hold a prompt of 18,904 tokens"),
        (did(1_900), "no agent request has come through this proxy yet"),
    ],
)
def test_a_server_that_worked_for_others(load, words):
    """Before the proxy or past it: suspicious, not proven."""
    finding = check(TrafficLook(load, Record(())))
    assert finding.state is FindingState.WARN
    assert words in finding.text


def test_the_command_that_watches_names_another_proxy():
    """So that it can be copied."""
    finding = check(TrafficLook(did(214_300), Record(())), proxy="http://127.0.0.1:9000")
    assert finding.text.endswith("cacheproxy doctor --watch 60 --proxy http://127.0.0.1:9000")


NEW = Record((seen(2), seen(3)))


@pytest.mark.parametrize(
    ("before", "after", "new", "state", "words"),
    [
        (
            *(did(1_000), did(215_300), Record(()), FindingState.FAIL),
            "within 60 s the server evaluated 214,300 prompt tokens, but no request",
        ),
        (
            *(held(7), held(12), Record(()), FindingState.FAIL),
            "within 60 s the server worked on requests, but no request",
        ),
        (
            did(0),
            did(38_000),
            NEW,
            FindingState.OK,
            "2 requests came through this proxy within 60 s",
        ),
        (
            did(0),
            did(90_000),
            NEW,
            FindingState.WARN,
            ", 54,000 of them for requests from elsewhere",
        ),
        (
            did(9_000),
            did(9_000),
            Record(()),
            FindingState.WARN,
            "no request came through this proxy",
        ),
        (None, server_look(), Record(()), FindingState.WARN, "as far as the server tells"),
    ],
)
def test_what_is_seen_while_it_is_watched(before, after, new, state, words):
    """What came through, and what the server did besides: by counters, else by its slots."""
    finding = check(
        TrafficLook(before, Record((seen(1),))),
        TrafficLook(after, Record((seen(1), *new.seen))),
        60,
    )
    assert finding.state is state
    assert words in finding.text
    if state is FindingState.FAIL:
        assert "ANTHROPIC_BASE_URL=http://127.0.0.1:8081 claude" in finding.fix
