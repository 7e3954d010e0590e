"""What OpenClaw is told."""

from __future__ import annotations

import json

from cacheproxy_openclaw import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """A provider beside the others, and the model to begin with."""
    found = json.loads(cacheproxy_setup(FULL).content)
    provider = found["models"]["providers"]["cacheproxy"]
    assert found["models"]["mode"] == "merge"
    assert found["agents"]["defaults"]["model"]["primary"] == f"cacheproxy/{FULL.model}"
    assert (provider["baseUrl"], provider["api"]) == (f"{URL}/v1", "openai-completions")
    (model,) = provider["models"]
    assert (model["contextWindow"], model["maxTokens"]) == (131_072, 8192)
    provider = json.loads(cacheproxy_setup(BOTH).content)["models"]["providers"]["cacheproxy"]
    assert provider["apiKey"] == "${OPENAI_API_KEY}"
    assert provider["headers"] == {TOKEN_HEADER: "${CACHEPROXY_TOKEN}"}


def test_a_models_name_is_no_variable():
    """Where OpenClaw would put one's text, a second dollar stands before it."""
    setup = cacheproxy_setup(Need(URL, model="a ${HOME} $${HOME} ${home} $x"))
    name = "a $${HOME} $$${HOME} ${home} $x"
    (model,) = json.loads(setup.content)["models"]["providers"]["cacheproxy"]["models"]
    assert (model["id"], model["name"]) == (name, name)
    found = json.loads(setup.content)["agents"]["defaults"]["model"]["primary"]
    assert found == f"cacheproxy/{name}"


def test_it_is_started_with_a_file_that_includes_the_users(tmp_path, monkeypatch):
    """Which stays as it is, and may not be there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
    need = Need(URL, model="m", folder="/there")
    launch = cacheproxy_setup(need).launch
    assert launch.variables == {"OPENCLAW_CONFIG_PATH": "/there/openclaw.json"}
    assert launch.files == {"openclaw.json": cacheproxy_setup(need).content}
    users = tmp_path / ".openclaw/openclaw.json"
    users.parent.mkdir()
    users.write_text("{}")
    launch = cacheproxy_setup(need).launch
    found = json.loads(launch.files["openclaw.json"])
    assert found.pop("$include") == str(users)
    assert found == json.loads(cacheproxy_setup(need).content)
    assert launch.variables["OPENCLAW_INCLUDE_ROOTS"] == str(users.parent)
