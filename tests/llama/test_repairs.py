"""What the real server repairs of the billing header, and whether we know it."""

from __future__ import annotations

import json
import urllib.request

import pytest

from cacheproxy.core.profile import Profile
from cacheproxy.core.prompt import Order, prompt_of
from cacheproxy.core.repairs import as_repaired
from cacheproxy.core.server import LLAMA_SERVER, Server
from cacheproxy.core.usage import usage_of
from cacheproxy.testing import request

from .replay import PATHS, TOLERANCE, erase

pytestmark = pytest.mark.llama

PROFILE = Profile(server=Server(LLAMA_SERVER), order=Order.SYSTEM_FIRST)
HEADER = "x-anthropic-billing-header: cc_version=2.1.114.{}; cc_entrypoint=cli; cch={};"
REST = "You are an agent. Read the file and say what it does. " * 20
PAIRS = {
    "another cch of five": (("9a3", "2ca14"), ("9a3", "b2c81")),
    "another cch of six": (("9a3", "2ca140"), ("9a3", "b2c811")),
    "another version": (("9a3", "2ca14"), ("1b2", "2ca14")),
}


def body_of(api, version, cch):
    header, user = HEADER.format(version, cch), {"role": "user", "content": "go on"}
    if api == "messages":
        system = [{"type": "text", "text": text} for text in (header, REST)]
        return {"max_tokens": 1, "system": system, "messages": [user]}
    said = f"{header}\n{REST}"
    if api == "chat":
        return {"max_tokens": 1, "messages": [{"role": "system", "content": said}, user]}
    return {"max_output_tokens": 1, "instructions": said, "input": [user]}


def ask(url, path, body):
    data = json.dumps({"model": "random"} | body).encode()
    asked = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(asked, timeout=120) as response:
        return usage_of(json.load(response))


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_header_that_we_take_for_repaired_costs_nothing(llama, api, pair):
    """And one that we do not costs the prompt."""
    erase(llama.url)
    path = PATHS[api]
    bodies = [body_of(api, *values) for values in PAIRS[pair]]
    prompts = [prompt_of(request(body, path), Order.SYSTEM_FIRST) for body in bodies]
    dialect = request(bodies[0], path).dialect
    one, other = (as_repaired(prompt, dialect, PROFILE) for prompt in prompts)
    first, second = (ask(llama.url, path, body) for body in bodies)
    assert first.reused == 0
    is_whole = second.reused >= first.prompt - TOLERANCE
    assert is_whole is (one == other)
