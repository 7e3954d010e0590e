"""What Codex is told."""

from __future__ import annotations

import tomllib

from cacheproxy_codex import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)
TOKEN_HEADER = "X-Cacheproxy-Token"


def test_what_it_is_told():
    """TOML, with the Responses API; the key by its variable's name."""
    found = tomllib.loads(cacheproxy_setup(FULL).content)
    assert found == {
        "model": FULL.model,
        "model_provider": "cacheproxy",
        "model_context_window": 131_072,
        "model_providers": {
            "cacheproxy": {
                "name": "cacheproxy",
                "base_url": f"{URL}/v1",
                "wire_api": "responses",
            }
        },
    }
    both = tomllib.loads(cacheproxy_setup(BOTH).content)["model_providers"]["cacheproxy"]
    assert both["env_key"] == "OPENAI_API_KEY"
    assert both["env_http_headers"] == {TOKEN_HEADER: "CACHEPROXY_TOKEN"}


def test_without_its_api():
    """A server that is known not to have it is warned of, one that was not asked is not."""
    without = Need(URL, model="m", serves=lambda path: path != "/v1/responses")
    (warning,) = cacheproxy_setup(without).warnings
    assert "/v1/responses" in warning
    assert cacheproxy_setup(Need(URL, model="m", serves=lambda _: True)).warnings == ()
    assert cacheproxy_setup(FULL).warnings == ()


def test_it_is_started_with_what_it_is_told():
    """The same as in its file, by options, whatever the model is called."""
    for need in (FULL, BOTH, Need(URL, model="a\\b 'c' = [x]\u2028")):
        setup = cacheproxy_setup(need)
        assert setup.launch.program == "codex"
        assert set(setup.launch.arguments[::2]) == {"-c"}
        assert tomllib.loads("\n".join(setup.launch.arguments[1::2])) == tomllib.loads(
            setup.content
        )
