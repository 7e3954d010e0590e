"""What a real llama.cpp refuses for its tools, calls and turns is taken once it is healed."""

import json

import pytest

from cacheproxy.core.adapt.calls import Calls
from cacheproxy.core.adapt.schemas import Level
from cacheproxy.core.adapt.tools import Tools

from .stuck import CHAT, MESSAGES, RESPONSES, SCHEMAS, SHAPES, Server, asked
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


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_which_of_many_is_found(path, serve):
    """By short probes, where the error names none; the others' bytes stay, whichever come or go."""
    server = Server(serve("inline", n_ctx=8192).url, Tools())
    good = [
        {"type": "object", "properties": {f"p{at}": {"type": "string", "maxLength": 5000}}}
        for at in range(15)
    ]
    schemas = [*good[:10], SCHEMAS["a minimum of 5,000 letters"], *good[10:]]
    refusal, sent = server.send(asked(path, (), schemas))
    assert refusal is None
    before = json.loads(asked(path, (), schemas).body)["tools"]
    changed = [at for at, tool in enumerate(sent.json["tools"]) if tool != before[at]]
    assert changed == [10]
    assert [*server.remembered["tool-schemas"].values()] == [Level.BOUNDS]
    assert server.count["probes"] <= 12
    server.count.clear()
    for fewer in (schemas[1:], good, schemas):
        assert server.send(asked(path, (), fewer))[0] is None
    assert server.count == {"sent": 3}
