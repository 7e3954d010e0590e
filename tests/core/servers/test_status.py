"""What the pages of a server come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.servers.counters import Reading, Sample, ServerFigures
from cacheproxy.core.servers.llama_cpp import slots_of
from cacheproxy.core.servers.looking import _wants, look_of
from cacheproxy.core.servers.ollama import RUNNING
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.core.servers.status import (
    Answers,
    Look,
    MetricsPage,
    Slot,
    UpstreamState,
    identity_of,
)
from cacheproxy.core.servers.transformers_serve import LOADING

SAMPLE = Sample(ServerFigures(evaluated=7.0))
SLOTS = [
    {"id": 0, "n_ctx": 2048, "is_processing": False},
    {
        "id": 1,
        "n_ctx": 2048,
        "is_processing": False,
        "id_task": 32,
        "n_prompt_tokens": 325,
        "prompt": "a canary",
        "next_token": [{"n_decoded": 8}],
    },
    {
        "id": 2,
        "n_ctx": 2048,
        "is_processing": True,
        "id_task": 31,
        "n_prompt_tokens": 100,
        "next_token": [{"n_decoded": 8}],
    },
]
PROPS = {"default_generation_settings": {"n_ctx": 2048}, "media_marker": "<__media_abc__>"}


def look(statuses, pages=None, sample=None):
    return look_of("http://localhost:8080", 1.0, 2.0, Answers(statuses, pages or {}, sample))


def test_llama_server_with_everything_on():
    pages = {"/slots": SLOTS, "/props": PROPS, "/v1/models": {"data": [{"id": "qwen"}]}}
    seen = look({"/health": 200, "/metrics": 200, "/slots": 200}, pages, SAMPLE)
    assert (seen.state, seen.metrics, seen.served) == (UpstreamState.UP, MetricsPage.ON, "qwen")
    assert seen.slots == (
        Slot(0, 2048, 0, busy=False),
        Slot(1, 2048, 325, busy=False, task=32),
        Slot(2, 2048, 108, busy=True, task=31),
    )
    assert seen.kv == pytest.approx((325 + 108) / 6144)
    assert seen.reading == Reading(SAMPLE.figures, seen.start, 32)
    assert seen.server.context == 2048
    assert "canary" not in repr(seen)


def test_another_marker_is_another_start():
    """llama-server makes it anew when it starts; the marker itself is not kept."""
    one = look({"/props": 200}, {"/props": PROPS}).start
    other = look({"/props": 200}, {"/props": PROPS | {"media_marker": "<__media_abd__>"}}).start
    assert one
    assert one != other
    assert "media" not in one


@pytest.mark.parametrize(
    ("health", "metrics", "state", "found"),
    [
        *((200, absent, UpstreamState.UP, MetricsPage.OFF) for absent in (401, 403, 404, 405, 501)),
        # its counters may be there again with the next look
        *((200, failed, UpstreamState.UP, MetricsPage.UNKNOWN) for failed in (500, 502, 429)),
        (200, 200, UpstreamState.UP, MetricsPage.OFF),  # a page of another program
        (503, 503, UpstreamState.LOADING, MetricsPage.UNKNOWN),
    ],
)
def test_whether_a_server_tells_its_counters(health, metrics, state, found):
    seen = look({"/health": health, "/metrics": metrics})
    assert (seen.state, seen.metrics, seen.reading) == (state, found, None)


@pytest.mark.parametrize(
    "models", [None, {}, {"data": [{"id": "a"}, {"id": "b"}]}, {"data": [{"id": 3}]}, {"data": [1]}]
)
def test_only_one_model_is_the_served_one(models):
    assert look({"/v1/models": 200}, {"/v1/models": models}).served is None


@pytest.mark.parametrize("page", [None, {}, "x", [1, "x"], [{}], [{"id": "0", "n_ctx": -1}]])
def test_odd_slots_do_not_raise(page):
    for slot in slots_of(page):
        assert (slot.id, slot.context, slot.used) == (0, 0, 0)
    assert look({}, {"/slots": page}).kv is None


def test_another_server_is_told_by_what_it_says_of_itself():
    """What it leaves out now and then has not changed; who says nothing is who it was."""
    one = Look(
        "u", 0, 0, UpstreamState.UP, server=ServerFacts("llama-server", "b1"), served="m", start="s"
    )
    who, is_other = identity_of(one, None)
    assert not is_other
    assert identity_of(replace(one, server=None), who) == (who, False)
    assert identity_of(replace(one, server=ServerFacts(), served=None, start=None), who) == (
        who,
        False,
    )
    for change in ({"start": "t"}, {"served": "n"}, {"server": ServerFacts("vLLM", "b1")}):
        found, is_other = identity_of(replace(one, **change), who)
        assert is_other
        assert identity_of(replace(one, **change), found) == (found, False)
    later, is_other = identity_of(one, identity_of(replace(one, served=None), None)[0])
    assert (later, is_other) == (who, False)


CLEARED = {"id": 2, "n_ctx": 65536, "is_processing": False, "id_task": 3, "n_prompt_tokens": 0}
"""As llama.cpp of October 2026 lists a slot whose prompt it has moved to RAM."""


@pytest.mark.parametrize(
    ("slot", "cleared"),
    [
        (CLEARED, True),
        (CLEARED | {"n_prompt_tokens": 320}, False),
        (CLEARED | {"is_processing": True}, False),
        (CLEARED | {"id_task": -1}, False),
        ({"id": 2, "n_ctx": 65536, "is_processing": False}, False),
        ({"id_task": True, "is_processing": False, "n_prompt_tokens": 0}, False),
        (7, False),
    ],
)
def test_a_slot_that_had_a_task_and_holds_nothing_was_cleared(slot, cleared):
    """One that was never used was not."""
    assert look({"/slots": 200}, {"/slots": [slot]}).has_cleared is cleared


def test_the_formats_of_time_in_a_template():
    """Of the source, nothing else is kept."""
    props = PROPS | {"chat_template": "a canary {{ strftime_now('%Y-%m-%d') }}"}
    seen = look({"/props": 200}, {"/props": props})
    assert seen.formats == ("%Y-%m-%d",)
    assert "canary" not in repr(seen)
    assert look({"/props": 200}, {"/props": PROPS | {"chat_template": 7}}).formats == ()


def running(*contexts):
    return {"models": [{"name": "q", "context_length": context} for context in contexts]}


@pytest.mark.parametrize(
    ("page", "context"),
    [
        (running(4096), 4096),
        (running(4096, 8192), None),
        (running(), None),
        (running("many"), None),
        ({"models": [7]}, None),
        ([], None),
    ],
)
def test_the_context_of_the_one_model_that_ollama_has_loaded(page, context):
    """Of several nobody knows which is meant."""
    pages = {"/api/version": {"version": "0.40.12"}, RUNNING: page}
    assert look({"/api/version": 200}, pages).context == context


def test_further_pages_are_wanted_of_those_that_have_them():
    """So that others are not asked in vain."""
    ollama = Answers({"/api/version": 200}, {"/api/version": {"version": "0.40.12"}})
    assert _wants(RUNNING, ollama)
    assert not _wants("/version", ollama)
    vllm = Answers({"/v1/models": 200}, {"/v1/models": {"data": [{"owned_by": "vllm"}]}})
    assert _wants("/version", vllm)
    assert not _wants(RUNNING, vllm)
    assert _wants(LOADING, Answers({}, {}, software="uvicorn"))
    assert not _wants(LOADING, Answers({}, {}))
