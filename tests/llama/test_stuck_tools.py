"""What a real llama.cpp refuses for its tools, calls and turns is taken once it is healed."""

import pytest

from cacheproxy.core.adapt.calls import Calls
from cacheproxy.core.adapt.tools import Tools

from .stuck import SHAPES, Server
from .vendors import VENDORS

pytestmark = pytest.mark.llama

TEMPLATES = {
    "inline": 55,
    "Apertus-8B-Instruct": 55,
    "DeepSeek-V3.2": 30,
    "GLM-4.7-Flash": 30,
    "Kimi-K2-Instruct": 30,
    "Ministral-3-14B-Reasoning": 60,
    "Qwen3.5-4B": 55,
    "Seed-OSS-36B-Instruct": 55,
    "gpt-oss-120b": 55,
}
"""How many of the shapes a template refuses, at least."""


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_was_refused_is_taken(name, serve):
    """Later turns are not refused again, and are the same bytes; what was taken is not touched."""
    url = serve(VENDORS.get(name, name), n_ctx=8192).url
    refused = 0
    for shape, request in SHAPES.items():
        server = Server(url, Tools(), Calls())
        was_taken = server.ask(request) is None
        refused += not was_taken
        refusal, sent = server.send(request)
        assert refusal is None, (shape, refusal)
        assert (sent is request) is was_taken, shape
        server.count.clear()
        assert server.send(request)[1].body == sent.body
        assert server.count == {"sent": 1}, shape
    assert refused >= TEMPLATES[name], refused
