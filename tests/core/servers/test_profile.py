"""A profile as plain values, and in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.profile import (
    Memory,
    MemoryKind,
    Profile,
    Reporting,
    ServerFacts,
    Thinking,
    ThinkingProfile,
    for_people,
    plain,
    profile_in,
    says,
)

VLLM = Profile(
    server=ServerFacts("vLLM", "0.32.0", "tiny", 65_536),
    memory=Memory(MemoryKind.BLOCKS, block=16, context=65_536, capacity=4_194_304),
    reporting=Reporting.FLAGGED,
    flag="--enable-prompt-tokens-details",
    counts_reuse=True,
    start="1795351480.9",
    told_by="its status pages",
)
LLAMA = Profile(
    server=ServerFacts("llama-server", "b11549", "qwen", 65_536, 4),
    placement=alike(Late.REFUSED, "/apply-template"),
    thoughts=ThinkingProfile(Thinking.ON_REQUEST, ("preserve_thinking", True), writes_empty=True),
    order=PromptOrder.SYSTEM_FIRST,
    clock="the date",
    page="/apply-template",
    memory=Memory(MemoryKind.CHECKPOINTED, slots=4, is_unified=True, has_ram=True, context=65_536),
    reporting=Reporting.ALWAYS,
)


@given(st.from_type(Profile))
def test_plain_values_say_it_all(profile):
    """JSON can spell them, and what is not known takes no room."""
    values = plain(profile)
    assert profile_in(json.loads(json.dumps(values))) == profile
    assert "null" not in json.dumps(values).replace('"null"', "")
    assert (values == {}) is (profile == Profile())


@pytest.mark.parametrize(
    "value",
    [None, 7, [], "x", {"memory": "large"}, {"order": "none"}, {"memory": {"block": "many"}}],
)
def test_what_another_version_wrote_is_no_profile(value):
    """Rather none than half of one."""
    assert profile_in(value) is None


MEMORY_OF_VLLM = (
    "the server reuses whole blocks of 16 tokens; the server reports reuse only with "
    "--enable-prompt-tokens-details; its metrics count it"
)
MEMORY_OF_LLAMA = (
    "the server can only go back to its checkpoints; 4 slots share one memory; "
    "a prompt that leaves its slot is kept in RAM; the server always reports reuse"
)
RENDERING_OF_LLAMA = (
    "the template drops the thinking of a turn at the next user message, unless "
    "chat_template_kwargs contain preserve_thinking: true; it writes an empty block where no "
    "thinking came back, until then; it prints the system text first; it prints the time"
)
HYBRID = (
    "the server reuses whole blocks of 1,024 tokens, except the last one; "
    "the server reports reuse only where there is some"
)


@pytest.mark.parametrize(
    ("profile", "lines"),
    [
        (VLLM, {"memory": MEMORY_OF_VLLM}),
        (LLAMA, {"memory": MEMORY_OF_LLAMA, "rendering": RENDERING_OF_LLAMA}),
        (
            Profile(memory=Memory(MemoryKind.BLOCKS, 1024, True), reporting=Reporting.WHEN_SOME),
            {"memory": HYBRID},
        ),
        (
            Profile(reuses=False, reporting=Reporting.NEVER, tools_last=True),
            {
                "memory": "the server reuses nothing",
                "rendering": "the template writes the tools into the last user message",
            },
        ),
        (Profile(memory=Memory(slots=1, context=9)), {}),
        (Profile(), {}),
    ],
)
def test_what_is_known_in_words(profile, lines):
    """One line of the memory, one of the template, none of what is not known.

    A page has members of its own for the server and the placement.
    """
    page = for_people(profile)
    assert page.pop("says") == says(profile) == lines
    assert page == {k: v for k, v in plain(profile).items() if k not in ("server", "placement")}
