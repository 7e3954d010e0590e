"""What came through the proxy: the record it serves, its clients, turns and failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from cacheproxy.client_setup.finding import FindingState
from cacheproxy.config import Config
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.prompt.request import Request
from cacheproxy.doctor import proxy_checks, record
from cacheproxy.doctor.facts import SeenUpstream
from cacheproxy.plugin.packages import configured
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.web import exchanges as page
from tests.doctor import builders
from tests.doctor.builders import facts, recorded, seen, server_look

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
    upstream = SeenUpstream("http://h:8080", server_look(evaluated=900_000))
    proxy = replace(builders.RUNS, upstream="http://h:8080")
    (finding,) = proxy_checks.traffic(facts(record=kept, upstream=upstream, proxy=proxy))
    return finding


def agents(kept):
    return list(proxy_checks.agents(facts(record=kept)))


@pytest.fixture
def read(peer):
    """Read the record of a proxy with these exchanges, from the page that the proxy serves."""

    def read(*exchanges):
        said = asyncio.run(page.exchanges(exchanges))
        return record.read(peer({record.PAGE: said}).url, {}, NOW)

    return read


def test_the_record_leaves_out_what_is_no_agent_s(read):
    """Our own prompts, and requests without a prompt."""
    kept = read(exchange(1), exchange(2, client="cacheproxy-doctor"), exchange(3, turn=0))
    assert [one.number for one in kept.rows] == [1]
    assert kept.rows[0].client == "claude"
    usage = kept.rows[0].usage
    assert (usage.prompt, usage.reused) == (18_000, 17_000)
    assert (kept.rows[0].status, kept.rows[0].received.path) == (200, "/v1/messages")
    assert not kept.rows[0].has_failed


def test_what_the_server_said_of_a_failure_is_on_one_line(peer):
    """It is in the record of a proxy that knows it."""
    page = {"turn": 1, "status": 400, "error": "System message\n must be\tfirst. " + "x" * 999}
    (one,) = record.read(peer({record.PAGE: {"exchanges": [page]}}).url, {}, NOW).rows
    assert one.has_failed
    assert record.said_of(one).startswith("System message must be first. xxx")
    assert len(record.said_of(one)) == 200
    page["error"] = "Unable to ...\nraise_exception('System me...\nError: Jinja Exception: It must."
    (one,) = record.read(peer({record.PAGE: [page]}).url, {}, NOW).rows
    assert record.said_of(one) == "It must."
    (mute,) = record.read(peer({record.PAGE: [{"turn": 1, "status": 502}]}).url, {}, NOW).rows
    assert (mute.has_failed, record.said_of(mute)) == (True, "")


@pytest.mark.parametrize("page", [(404, {}), "text", {"exchanges": 5}, 7, None])
def test_a_proxy_without_a_record(peer, page):
    """Nothing is claimed."""
    kept = record.read(peer({record.PAGE: page}).url, {}, NOW)
    assert kept is record.NO_RECORD
    finding = traffic(kept)
    assert finding.state is FindingState.WARN
    assert "keeps no record" in finding.text


@pytest.mark.parametrize(
    "page", [[5, {}], [{"number": "x", "usage": 5, "wall": None, "turn": True}], {"exchanges": []}]
)
def test_a_strange_record_has_no_exchange(peer, page):
    """Whoever answers there."""
    assert record.read(peer({record.PAGE: page}).url, {}, NOW).rows == ()


def test_agents_that_come_through(read):
    """How many requests; who and when."""
    kept = read(exchange(1), exchange(2, turn=2), exchange(3, client="cline"))
    finding = traffic(kept)
    assert (finding.state, finding.text[:10]) == (FindingState.OK, "3 requests")
    (seen,) = agents(kept)
    assert seen.text == (
        "seen: claude (2 requests in 1 session, the last 2 min ago), "
        "cline (1 request in 1 session, the last 2 min ago)"
    )
    assert agents(recorded()) == []


def test_turns_that_lost_the_cache(read):
    """With the reasons; a problem if they are most."""
    lost = [exchange(n, turn=n, reused=33, judged=Judgement.BREAK) for n in (2, 3)]
    kept = [exchange(n, turn=n) for n in (4, 5, 6)]
    _, few = agents(read(exchange(1, judged=Judgement.COLD), *lost, *kept))
    assert few.state is FindingState.WARN
    assert few.fix == "cacheproxy diagnose 3"
    assert few.text == (
        "2 of the last hour's 5 follow-up turns lost the cache: system_changed 2; "
        "39.9 % of their tokens were evaluated again"
    )
    _, most = agents(read(*lost, *kept[:1]))
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
    broken = seen(2, 2, 1807, 1700, "BREAK", lost=lost, reason="unknown")
    _, turns = agents(recorded(*[broken] * 3))
    assert turns.state is state


def test_what_was_lost_comes_with_the_record(read):
    """Of an older proxy that does not say it, all that was evaluated is taken for lost."""
    lost = Verdict(Judgement.BREAK, Reason.EVICTED, lost=TokenCount(900, "measured"))
    kept = read(replace(exchange(2, turn=2, reused=17_000), verdict=lost))
    assert kept.rows[0].lost == 900
    assert kept.lost_share == 0.05
    assert recorded(
        replace(kept.rows[0], verdict=structs.replace(kept.rows[0].verdict, lost=None)), now=NOW
    ).lost_share == pytest.approx(1 / 18)


SYSTEM = "System message must be at the beginning."


def asked(number, client="claude", status=200, said=None, **more):
    more |= {"client": client, "status": status, "error": said, "wall": NOW - 120}
    return builders.seen(number, number, None, None, "-", path="/v1/messages", **more)


def requests(*kept, kind="", known=builders.KNOWN):
    found = configured(Config())
    return list(
        proxy_checks.requests(
            facts(kind, record=recorded(*kept, now=NOW, known=known), found=found)
        )
    )


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
        (500, "out of memory", "look in the model server's log"),
        (502, None, "look in the model server's log"),
        (400, "the request exceeds the available context size", "cacheproxy env claude"),
        (401, "Invalid API Key", "the model server's key"),
    ],
)
def test_what_mends_a_failure(status, said, fix):
    """No number to diagnose: the server evaluated nothing, so there is nothing to explain."""
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


@pytest.mark.parametrize(
    "rows",
    [
        (asked(1, "curl", 400), asked(2), asked(3)),
        (asked(1), asked(2), asked(3, "curl", 400), asked(4, "curl", 404)),
        (asked(1), asked(2, status=400), asked(3)),
        (asked(1), asked(2), asked(3, status=422)),
        (asked(1, "curl", 400),),
    ],
)
def test_a_malformed_request_is_a_note(rows):
    """A try by hand, or one that did not matter; nothing mends it but who sent it."""
    (found,) = requests(*rows)
    assert (found.state, found.fix) == (FindingState.NOTE, None)
    assert "requests failed" in found.text or len(rows) == 1
    assert recorded(*rows, now=NOW).failing == {}


def test_an_agent_whose_last_two_requests_are_malformed_is_stuck():
    """It asks for what this server does not have, say."""
    (found,) = requests(*map(asked, range(4)), *(asked(n, status=422) for n in (4, 5)))
    assert found.state is FindingState.FAIL
    assert found.text.startswith("2 of the last 6 requests of claude failed")
    assert found.fix.startswith("mend what the client sends")


@pytest.mark.parametrize("status", [400, 500])
def test_a_stranger_of_whom_everything_fails_is_no_try(status):
    """Where nobody's turns go well; nor is anything that blames the server one."""
    rows = [asked(n, "curl", status) for n in (1, 2, 3)]
    assert recorded(*rows, now=NOW).failing.keys() == {"curl"}
    assert recorded(asked(1, "curl", 500), now=NOW).failing.keys() == {"curl"}


def test_of_more_than_an_hour_ago_nothing_is_concluded():
    """It is still what came through."""
    old = replace(asked(1, status=500), wall=NOW - 3700)
    kept = recorded(old, now=NOW)
    assert (kept.failing, kept.measured, kept.clients()) == ({}, (), {"claude": 1})
    turns = [
        seen(n, n, reused=33, verdict="BREAK", wall=NOW - ago) for n, ago in ((2, 3700), (3, 9))
    ]
    assert [one.number for one in recorded(*turns, now=NOW).breaks] == [3]


def cut(number, prompt, expected, reused=7, **more):
    return seen(number, number, prompt, reused, "BREAK", expected=expected, **more)


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ([cut(2, 4096, 4096), cut(3, 3900, 4096)], 2),
        ([cut(2, 4096, 4096, None), cut(3, 4096, 4096, None)], 2),
        ([cut(2, 9000, 4096, reason="context_shifted")], 1),
        ([cut(2, 4096, 4096, None)], 0),
        ([cut(2, 3000, 4096)], 0),
        ([cut(2, 4096, 4096, 4095), cut(3, 4096, 4096, 4095)], 0),
        ([cut(2, 7000, 10_000), cut(3, 15_000, 7000), cut(4, 11_000, 15_000)], 0),
        ([cut(n, 3000, 4096, rewrite="thinking dropped") for n in (2, 3)], 0),
        ([cut(n, 3000, 4096, side=True) for n in (2, 3)], 0),
        ([cut(2, 5000, 4096), cut(3, 6000, None), cut(4, None, 4096)], 0),
    ],
)
def test_turns_whose_prompt_was_cut(rows, number):
    """They go on from the turn before, and have no more tokens; a repeated one has as many."""
    kept = recorded(*rows)
    assert len(kept.cut) == number
    found = list(proxy_checks.cut(facts("Ollama", record=kept)))
    assert [one.state for one in found] == [FindingState.FAIL] * bool(number)
    assert all("OLLAMA_CONTEXT_LENGTH" in one.fix for one in found)
    assert list(proxy_checks.cut(facts())) == []


def test_one_client_s_success_does_not_hide_another_s_failures():
    """Each is looked at by itself."""
    broken = [asked(n, status=400) for n in (1, 2, 3)]
    works = [asked(n, "opencode") for n in range(4, 20)]
    (found,) = requests(*broken, *works)
    assert found.state is FindingState.FAIL
    assert "all of the last 3 requests of claude" in found.text
    assert recorded(*broken, *works, now=NOW).failing.keys() == {"claude"}


def test_an_answer_that_broke_off_has_failed_and_a_client_that_left_has_not():
    """Though both have the status 200, or none."""
    (found,) = requests(asked(1, outcome="upstream failed"))
    assert found.text.endswith("with an answer that broke off")
    assert requests(asked(1, outcome="client left")) == []
    assert requests(asked(1, outcome="client left", status=None)) == []
    assert list(proxy_checks.requests(facts())) == []
