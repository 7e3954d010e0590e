"""A conversation small enough to be replayed in a second, with the real one's shape."""

import copy
from dataclasses import replace

import pytest

from cacheproxy.demo import conversation


@pytest.fixture
def small():
    whole = conversation.load()
    last = copy.deepcopy(whole.last)
    last["tools"] = last["tools"][:1]
    last["system"][2]["text"] = last["system"][2]["text"][:4000]
    return replace(whole, last=last, turns=whole.turns[:3])
