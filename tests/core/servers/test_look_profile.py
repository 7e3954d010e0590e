"""What the status pages of real servers tell of their memory and their reporting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.core.servers.counters import CacheConfig, Sample, ServerFigures
from cacheproxy.core.servers.looking import profile_from_look
from cacheproxy.core.servers.profile import Memory, MemoryKind, Profile, Reporting, ServerFacts
from cacheproxy.core.servers.status import Look, Slot, UpstreamState

VLLM_SERVER = ServerFacts("vLLM", "0.32.0", "tiny", 65_536)
LLAMA = ServerFacts("llama-server", "b11549", "qwen", 65_536, 4)


def look(server, **more):
    return Look("http://127.0.0.1:8080", 1.0, 2.0, UpstreamState.UP, server=server, **more)


def sample(reused=None, cache=None):
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
    profile = profile_from_look(look(ServerFacts(kind, version)))
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
    profile = profile_from_look(look(VLLM_SERVER, sample=sample(7.0, cache), start="1.0"))
    assert profile.memory == Memory(
        MemoryKind.BLOCKS, cache.block, cache.is_hybrid, context=65_536, capacity=cache.capacity
    )
    assert (profile.counts_reuse, profile.reuses, profile.start) == (True, reuses, "1.0")


def test_what_a_look_does_not_say_has_not_changed():
    """A page that fails now and then takes nothing back."""
    cache = CacheConfig(128, 4_194_304, is_hybrid=False, reuses=True)
    first = profile_from_look(look(VLLM_SERVER, sample=sample(7.0, cache), start="1.0"))
    assert profile_from_look(look(VLLM_SERVER), first) == first
    assert profile_from_look(look(None), first) is first
    assert profile_from_look(look(None)) == Profile()


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
    assert profile_from_look(look(replace(LLAMA, slots=count), slots=slots(*used))).memory == memory


def test_a_slot_that_was_cleared_while_idle_shares_its_memory():
    """And with room left, its prompt went to RAM."""
    first = profile_from_look(look(LLAMA, slots=slots(320, 0), has_cleared=True))
    assert first.memory == Memory(
        slots=4, context=65_536, is_unified=True, has_ram=True, capacity=65_536
    )
    assert profile_from_look(look(LLAMA, slots=slots(320, 0)), first).memory == first.memory
    full = profile_from_look(look(LLAMA, slots=slots(60_000, 0), has_cleared=True)).memory
    assert (full.is_unified, full.has_ram) == (True, None)


def test_the_context_that_ollama_gave_its_model():
    """Not the one that the model could have."""
    assert profile_from_look(look(ServerFacts("Ollama", "0.40.12"), context=4096)).memory == Memory(
        context=4096
    )
