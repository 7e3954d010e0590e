"""Conversations small enough to be replayed in a second, with the real ones' shape."""

import copy
from dataclasses import replace

import pytest
from cacheproxy_demo import run
from cacheproxy_demo.conversation import CCH, LATE, load


def smaller(whole):
    last = copy.deepcopy(whole.last)
    last["tools"] = last["tools"][:1]
    last["system"][2]["text"] = last["system"][2]["text"][:4000]
    return replace(whole, last=last, turns=whole.turns[:3])


@pytest.fixture
def small(monkeypatch):
    """The scenes of the demo with conversations of three small turns."""
    conversations = {name: smaller(load(name)) for name in (CCH, LATE)}
    monkeypatch.setattr(run, "load", conversations.__getitem__)
    return run.scenes
