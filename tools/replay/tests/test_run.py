"""Both passes over real sockets: the embedded server, the real service."""

import json

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_replay import Cold, Via
from cacheproxy_replay.estimate import assess, figures
from cacheproxy_replay.plan import erase, plan
from cacheproxy_replay.run import ReplayRun, chosen, is_named, placed, ruleset
from cacheproxy_replay.server import Counter, Slots, text_of

from cacheproxy.config import Config
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.http_client import Site
from cacheproxy.record.files import read
from tests import conversation, needs
from tests.peer import NOBODY

pytestmark = [pytest.mark.llama, pytest.mark.slow]

WITHIN = 0.02
"""The most by which an estimate may miss what the server reused."""
MOST_TURNS = 4


def quiet(_doing, _done):
    pass


def measured(run, progress=quiet):
    run.run(progress)
    counter = Counter(run.site)
    order = counter.order()
    assert order is PromptOrder.SYSTEM_FIRST
    return figures(*(assess(turns, counter, Slots(1), order, quiet) for turns in run.passes))


def share(row):
    return row.usage.reused / row.usage.prompt


def check_estimates(found, *, exact=True):
    rows = [row for row in (*found.captured, *found.through) if row.error is not None]
    assert rows
    for row in rows:
        assert abs(row.error) <= WITHIN, (row.number, row.usage.reused, row.expected)
        assert row.expected.exact is exact


@pytest.mark.parametrize("via", Via)
@pytest.mark.parametrize("dialect", conversation.PATHS)
def test_the_rules_turn_breaks_into_reuse_and_the_estimate_knows_it(dialect, via, llama, rules):
    run = ReplayRun(plan(conversation.captured(dialect)), Site(llama.url), rules, via=via)
    found = measured(run)
    assert all(share(row) < 0.3 for row in found.captured)
    assert share(found.through[0]) < 0.3
    assert all(share(row) > 0.8 for row in found.through[1:])
    assert not found.warm
    check_estimates(found)
    reasons = {row.verdict.reason for row in found.captured[1:]}
    assert reasons == {"system_changed"}
    assert {row.verdict.judgement for row in found.through[1:]} == {"ok"}
    assert found.server_time is (dialect != "messages")


def test_an_emptied_slot_starts_a_pass_cold_and_leaves_the_bodies_alone(llama, rules):
    planned = plan(conversation.captured(turns=2))
    for _ in range(2):
        run = ReplayRun(planned, Site(llama.url), rules, Cold.ERASE, Via.RULES)
        found = measured(run)
        assert [rows[0].usage.reused for rows in (found.captured, found.through)] == [0, 0]
    assert run.captured[0].received is planned.items[0].received


@pytest.mark.parametrize("name", ["as captured", "through cacheproxy"])
def test_a_slot_that_was_emptied_in_between_is_a_break_that_is_not_explained(name, llama, rules):
    def progress(doing, _done):
        if doing == f"request 3 of 4 {name}":
            erase(Site(llama.url))

    run = ReplayRun(plan(conversation.captured()), Site(llama.url), rules, via=Via.RULES)
    found = measured(run, progress)
    unknown = [
        row.number for row in (*found.captured, *found.through) if row.verdict.reason == "unknown"
    ]
    # as captured the prompts part at their start: the change is the reason, erased or not
    assert unknown == ([3] if name == "through cacheproxy" else [])


def test_answers_are_compared(llama, rules):
    run = ReplayRun(plan(conversation.captured(turns=2), answers=4), Site(llama.url), rules)
    run.run(quiet)
    texts = [text_of(turn) for turns in run.passes for turn in turns]
    assert all(texts)
    alike, answered = run.answered_alike()
    assert answered == 2
    assert alike <= 2
    assert all(turn.first_byte <= turn.seconds for turn in run.captured)


def test_the_order_of_a_template_is_asked_for(tmp_path):
    needs.llama()
    template = "{% if tools %}{{ tools | tojson }}{% endif %}"
    template += "{% for m in messages %}{{ m.content }}{% endfor %}"
    model = write_model(tmp_path / "m.gguf", template=template)
    with LlamaServer(model, n_ctx=2048) as server:
        assert Counter(Site(server.url)).order() is PromptOrder.TOOLS_FIRST
    assert Counter(Site(NOBODY)).order() is None


def test_sessions_are_named_and_chosen(rules):
    planned = plan(conversation.captured())
    third = placed(planned, rules)[2]
    session, place = third.session, third.place
    assert (session.label, place.turn, place.is_side) == ("agent/5e55-10n", 3, False)
    assert is_named(session, "agent/5e")
    assert is_named(session, "5e55-10n")
    assert len(chosen(planned, rules, "5e55", side=True)) == 4
    assert chosen(planned, rules, "other", side=True) == ()


@pytest.mark.parametrize(
    "name",
    ["claude-bare", "codex-oss", "cline-tui", "openclaw-anthropic"],
)
def test_recorded_sessions_are_estimated_within_two_per_cent(name, captures, tmp_path):
    """On traffic of real clients too, in each dialect; all captures: see the pull request."""
    needs.llama()
    records, problems = read(captures / f"{name}.jsonl")
    assert problems == []
    rules = ruleset(Config())
    planned = plan(records)
    planned = type(planned)(chosen(planned, rules, None, side=False)[:MOST_TURNS], 1)
    text = "\n".join(
        json.dumps(item.received.json, ensure_ascii=False) for item in planned.items[-1:]
    )
    model = write_model(tmp_path / "m.gguf", text=text.replace("\\n", "\n"))
    with LlamaServer(model) as server:
        found = measured(ReplayRun(planned, Site(server.url), rules, via=Via.RULES))
    check_estimates(found)
