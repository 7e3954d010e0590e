"""What opencode is told."""

from __future__ import annotations

import json
import re

from cacheproxy_opencode import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """A provider of its own, with the model's limits."""
    found = json.loads(cacheproxy_setup(FULL).content)
    provider = found["provider"]["cacheproxy"]
    assert found["model"] == f"cacheproxy/{FULL.model}"
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    assert provider["options"] == {"baseURL": f"{URL}/v1", "apiKey": "cacheproxy"}
    assert provider["models"][FULL.model]["limit"] == {"context": 131_072, "output": 8192}
    options = json.loads(cacheproxy_setup(BOTH).content)["provider"]["cacheproxy"]["options"]
    assert options["apiKey"] == "{env:OPENAI_API_KEY}"
    assert options["headers"] == {TOKEN_HEADER: "{env:CACHEPROXY_TOKEN}"}


def test_a_models_name_is_no_variable():
    """Variables and files are put into the text before that is read as JSON."""
    name = 'm {env:HOME} {file:/etc/passwd} ${X} "q" \\'
    setup = cacheproxy_setup(Need(URL, token="t", model=name))
    for text in (setup.content, setup.launch.variables["OPENCODE_CONFIG_CONTENT"]):
        assert re.findall(r"\{(?:env|file):[^}]*\}", text) == ["{env:CACHEPROXY_TOKEN}"]
        found = json.loads(text)
        assert found["model"] == f"cacheproxy/{name}"
        assert list(found["provider"]["cacheproxy"]["models"]) == [name]


def test_it_is_started_with_what_it_is_told():
    """The same as in its file, by a variable."""
    launch = cacheproxy_setup(FULL).launch
    assert launch.program == "opencode"
    assert launch.variables == {"OPENCODE_CONFIG_CONTENT": cacheproxy_setup(FULL).content}
