"""Nothing of one conversation gets into another, whatever many clients do at once.

``CACHEPROXY_TURNS=20000 pytest tests/core/conversation/test_worlds.py`` takes some minutes.
"""

import os

import pytest
from hypothesis import settings

from tests.core.conversation.worlds import world_of

EACH = min(400, 15 * settings().max_examples)
TURNS = int(os.environ.get("CACHEPROXY_TURNS", 4 * EACH))


@pytest.mark.parametrize("seed", range(max(1, TURNS // EACH)))
def test_each_conversation_has_its_own_and_all_of_it(seed):
    """In folders, sessions, histories and answers that are shared, forged, cut and branched."""
    world = world_of(seed, EACH)
    assert (dict(world.wrong), world.shown) == ({}, [])
    assert world.found["reasoning"] > EACH / 4
    assert sum(count for name, count in world.found.items() if name != "reasoning") > EACH / 20
