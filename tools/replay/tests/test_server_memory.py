"""What a server still has, told by what it has been sent."""

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_replay.server import Everything, Slots, shared_tokens, slots_without_ram

from cacheproxy.core.kinds.profile import ServerFacts
from cacheproxy.http_client import Site
from tests import conversation, needs
from tests.peer import NOBODY


def test_tokens_are_shared_from_the_start():
    assert shared_tokens([1, 2, 3], [1, 2, 4, 5]) == 2
    assert shared_tokens([1, 2], [1, 2, 3]) == 2
    assert shared_tokens([], [1]) == 0


def reuses(memory, prompts):
    return [memory.reuse(prompt) for prompt in prompts]


MAIN, OTHER = [1] * 20, [2] * 20
PROMPTS = [MAIN, OTHER, [*MAIN, 3], [*OTHER, 3]]


def test_one_slot_has_the_last_prompt_and_three_have_both():
    assert reuses(Slots(1), PROMPTS) == [None, 0, 0, 0]
    assert reuses(Slots(3), PROMPTS) == [None, 0, 20, 20]
    assert reuses(Everything(), PROMPTS) == [None, 0, 20, 20]


def test_a_prompt_that_shares_little_takes_the_slot_unused_for_longest():
    little = [1, *[4] * 30]
    assert reuses(Slots(2), [MAIN, OTHER, little, OTHER]) == [None, 0, 1, 20]


@pytest.mark.slow
@pytest.mark.llama
@pytest.mark.parametrize(
    ("settings", "known"),
    [
        ({"n_parallel": 1}, 1),
        ({"n_parallel": 2}, 2),
        ({"n_parallel": 1, "cache_ram_mib": 64}, None),
    ],
)
def test_a_server_is_asked_whether_it_keeps_more_than_its_slots(settings, known, tmp_path):
    needs.llama()
    model = write_model(tmp_path / "m.gguf", text=conversation.text())
    with LlamaServer(model, n_ctx=8192, **settings) as server:
        site = Site(server.url)
        asked = ServerFacts(slots=settings["n_parallel"])
        assert slots_without_ram(site, asked, "m") == known


def test_no_server_or_another_one_says_nothing_of_slots():
    assert slots_without_ram(Site(NOBODY), ServerFacts(), "m") is None
