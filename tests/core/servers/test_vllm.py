"""What is vLLM's own."""

from __future__ import annotations

import pytest

from cacheproxy.core.servers.vllm import VLLM


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ({"reasoning_content": "so"}, {"reasoning": "so"}),
        ({"reasoning": "so"}, {"reasoning": "so"}),
        ({"reasoning_content": "so", "reasoning": "thus"}, {"reasoning": "thus"}),
        ({"reasoning_content": "so", "reasoning": None}, {"reasoning": "so"}),
        ({}, {}),
    ],
)
def test_reasoning_goes_to_vllms_page_by_the_name_that_it_reads(sent, asked):
    """As its chat API renames it; else the page shows another prompt than the one it answered."""
    said = {"role": "assistant", "content": "yes"}
    user = {"role": "user", "content": "no"}
    question = VLLM.rendering.spelled({"model": "m", "messages": [user, said | sent]})
    assert question["messages"] == [user, said | asked]
    assert VLLM.rendering.also == {"return_token_strs": True}
    assert question["model"] == "m"
