"""What the pages of a server come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.llama_cpp import slots_of
from cacheproxy.core.servers.looking import _wants, is_served, look_of, profile_from_look, question
from cacheproxy.core.servers.ollama import RUNNING
from cacheproxy.core.servers.profile import Memory, MemoryKind, Profile, Reporting, ServerFacts
from cacheproxy.core.servers.status import (
    Answers,
    CacheConfig,
    Look,
    MetricsPage,
    Sample,
    ServerFigures,
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
VLLM_SERVER = ServerFacts("vLLM", "0.32.0", "tiny", 65_536)
LLAMA = ServerFacts("llama-server", "b11549", "qwen", 65_536, 4)


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
    assert (seen.figures, seen.tasks) == (SAMPLE.figures, 32)
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
    assert (seen.state, seen.metrics, seen.figures) == (state, found, None)


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


def at(server, **more):
    return Look("http://127.0.0.1:8080", 1.0, 2.0, UpstreamState.UP, server=server, **more)


def sampled(reused=None, cache=None):
    return Sample(ServerFigures(prompt=9.0, reused=reused), cache=cache)


@pytest.mark.parametrize(
    ("kind", "version", "reporting", "flag", "reuses"),
    [
        ("llama-server", None, Reporting.ALWAYS, "", None),
        ("mlx-lm", None, Reporting.ALWAYS, "", None),
        ("vLLM", "0.32.0", Reporting.FLAGGED, "--enable-prompt-tokens-details", None),
        ("SGLang", None, Reporting.WHEN_SOME, "--enable-cache-report", None),
        ("transformers serve", None, Reporting.NEVER, "", False),
        ("LM Studio", None, Reporting.NEVER, "", None),
        ("TabbyAPI", None, Reporting.NEVER, "", None),
        ("Ollama", "0.33.3", Reporting.ALWAYS, "", None),
        ("Ollama", "0.40.12", Reporting.ALWAYS, "", None),
        ("Ollama", "0.33.2", Reporting.NEVER, "", None),
        ("Ollama", "0.9.9", Reporting.NEVER, "", None),
        ("Ollama", "1.0.0-rc1", Reporting.ALWAYS, "", None),
        ("Ollama", "0.0.0", Reporting.NEVER, "", None),
        ("Ollama", "new", Reporting.UNKNOWN, "", None),
        ("Ollama", None, Reporting.UNKNOWN, "", None),
        ("model server", None, Reporting.UNKNOWN, "", None),
    ],
)
def test_each_server_reports_reuse_in_its_way(kind, version, reporting, flag, reuses):
    """By its kind, and Ollama by its version."""
    profile = profile_from_look(at(ServerFacts(kind, version)))
    assert (profile.reporting, profile.flag, profile.reuses) == (reporting, flag, reuses)
    assert profile.server == ServerFacts(kind, version)
    assert profile.told_by


@pytest.mark.parametrize(
    ("cache", "reuses"),
    [
        (CacheConfig(128, 4_194_304, is_hybrid=True, reuses=True), None),
        (CacheConfig(16, reuses=False), False),
    ],
)
def test_vllm_keeps_blocks(cache, reuses):
    """As its metrics say, and where they count reuse, that too; only "off" is an answer."""
    profile = profile_from_look(at(VLLM_SERVER, sample=sampled(7.0, cache), start="1.0"))
    assert profile.memory == Memory(
        MemoryKind.BLOCKS, cache.block, cache.is_hybrid, context=65_536, capacity=cache.capacity
    )
    assert (profile.counts_reuse, profile.reuses, profile.start) == (True, reuses, "1.0")


def test_what_a_look_does_not_say_has_not_changed():
    """A page that fails now and then takes nothing back."""
    cache = CacheConfig(128, 4_194_304, is_hybrid=False, reuses=True)
    first = profile_from_look(at(VLLM_SERVER, sample=sampled(7.0, cache), start="1.0"))
    assert profile_from_look(at(VLLM_SERVER), first) == first
    assert profile_from_look(at(None), first) is first
    assert profile_from_look(at(None)) == Profile()


def slots(*used, context=65_536):
    return tuple(Slot(n, context, tokens, busy=False) for n, tokens in enumerate(used))


@pytest.mark.parametrize(
    ("count", "used", "memory"),
    [
        # whether they share a memory, and its kind, is not on the pages
        (4, (0, 0, 0, 0), Memory(slots=4, context=65_536)),
        (1, (0,), Memory(slots=1, context=65_536, capacity=65_536)),
        # a shared memory could not hold more than one context
        (
            4,
            (40_000, 40_000, 0, 0),
            Memory(slots=4, context=65_536, is_unified=False, capacity=4 * 65_536),
        ),
    ],
)
def test_slots_of_a_llama_server(count, used, memory):
    assert profile_from_look(at(replace(LLAMA, slots=count), slots=slots(*used))).memory == memory


def test_a_slot_that_was_cleared_while_idle_shares_its_memory():
    """And with room left, its prompt went to RAM."""
    first = profile_from_look(at(LLAMA, slots=slots(320, 0), has_cleared=True))
    assert first.memory == Memory(
        slots=4, context=65_536, is_unified=True, has_ram=True, capacity=65_536
    )
    assert profile_from_look(at(LLAMA, slots=slots(320, 0)), first).memory == first.memory
    full = profile_from_look(at(LLAMA, slots=slots(60_000, 0), has_cleared=True)).memory
    assert (full.is_unified, full.has_ram) == (True, None)


def test_the_context_that_ollama_gave_its_model():
    """Not the one that the model could have."""
    assert profile_from_look(at(ServerFacts("Ollama", "0.40.12"), context=4096)).memory == Memory(
        context=4096
    )


ANTHROPICS = b'{"type":"error","error":{"type":"not_found_error","message":"model: x"}}'


@pytest.mark.parametrize(
    ("status", "body", "served"),
    [
        (500, b'{"error":{"code":500,"message":"\'messages\' is required"}}', True),
        (400, b"{}", True),
        (422, b"{}", True),
        (401, b"{}", True),
        (200, b"{}", True),
        (404, ANTHROPICS, True),
        (404, b'{"error":{"message":"File Not Found","type":"not_found_error"}}', False),
        (404, b"404 page not found", False),
        (405, b"", False),
        (501, b"", False),
        (200, b'{"error":"Unexpected endpoint or method. (POST /v1/messages)"}', False),
        (502, b"", None),
        (503, b'{"error":{"message":"Loading model"}}', None),
        (429, b"", None),
        (508, b"", None),
    ],
)
def test_is_served(status, body, served):
    """By the answers of llama-server, vLLM, Ollama, LM Studio and gateways before them."""
    assert is_served(status, body) is served


@pytest.mark.parametrize(
    ("path", "dialect", "asked"),
    [
        ("/v1/messages", MESSAGES, "/v1/messages"),
        ("/v1/messages?beta=true", CHAT, "/v1/chat/completions"),
        ("/x/v1/messages/count_tokens", CHAT, "/x/v1/chat/completions"),
        ("/api/v1/chat/completions/", MESSAGES, "/api/v1/messages"),
    ],
)
def test_question(path, dialect, asked):
    """It keeps the prefix and the credentials, and nothing of what the user wrote."""
    headers = ((b"X-Api-Key", b"k"), (b"Authorization", b"Bearer b"), (b"Cookie", b"c"))
    request = Request("POST", path, headers, b'{"messages": []}')
    found = question(request, dialect)
    assert (found.method, found.target, found.body) == ("POST", asked, b"{}")
    assert found.header("x-api-key") == "k"
    assert found.header("authorization") == "Bearer b"
    assert found.header("cookie") is None
