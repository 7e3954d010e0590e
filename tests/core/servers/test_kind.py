"""How each kind of server is recognised by its pages, and by what their answers say besides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.servers import looking
from cacheproxy.core.servers.looking import marks
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.core.servers.status import Answers
from cacheproxy.core.servers.transformers_serve import LOADING

VERSION = "/version"
NO_SIGNS = ("", {})


def identify(pages, signs=NO_SIGNS):
    software, statuses = signs
    return looking.identify(Answers(statuses, pages, software=software))


MODELS = {"data": [{"id": "Qwen3-Coder-Next Q6_K", "owned_by": "llamacpp"}]}
PROPS = {
    "default_generation_settings": {"n_ctx": 131072},
    "total_slots": 4,
    "build_info": "b9724-1a2b3c4",
}

VLLM_MODEL = {"id": "q", "object": "model", "owned_by": "vllm", "max_model_len": 4096}
MLX_MODEL = {"id": "/models/q", "object": "model", "created": 1795351699}
PYTHON = ("BaseHTTP/0.6 Python/3.11.7", {})
UVICORN = ("uvicorn", {"/props": 404, LOADING: 405})


@pytest.mark.parametrize(
    ("pages", "signs", "summary"),
    [
        *(
            (pages, NO_SIGNS, summary)
            for pages, summary in [
                (
                    {"/props": PROPS, "/v1/models": MODELS},
                    "llama-server b9724 · Qwen3-Coder-Next Q6_K · 131,072 context · 4 slots",
                ),
                (
                    {"/props": PROPS | {"total_slots": 1}},
                    "llama-server b9724 · 131,072 context · 1 slot",
                ),
                ({"/props": {"default_generation_settings": {}}}, "llama-server"),
                ({"/props": {"default_generation_settings": None}}, "llama-server"),
                ({"/api/version": {"version": "0.12.3"}}, "Ollama 0.12.3"),
                (
                    {
                        "/api/version": {"version": "0.12.3"},
                        "/v1/models": {"data": [{"id": "qwen3:8b"}]},
                    },
                    "Ollama 0.12.3 · qwen3:8b",
                ),
                (
                    {
                        "/v1/models": {
                            "data": [{"id": "q", "owned_by": "vllm", "max_model_len": 4096}]
                        }
                    },
                    "vLLM · q · 4,096 context",
                ),
                ({"/v1/models": {"data": [{"id": "q", "owned_by": "sglang"}]}}, "SGLang · q"),
                (
                    {"/v1/models": {"data": [{"id": "gpt", "owned_by": "openai"}]}},
                    "model server · gpt",
                ),
                ({"/v1/models": {"data": []}}, "model server"),
                ({}, "model server"),
            ]
        ),
        # by the header Server, who owns the models, a page that is there for POST alone
        (
            {"/v1/models": {"data": [VLLM_MODEL]}, VERSION: {"version": "0.32.0"}},
            ("uvicorn", {}),
            "vLLM 0.32.0 · q · 4,096 context",
        ),
        (
            {"/v1/models": {"data": [VLLM_MODEL]}, VERSION: {"version": 7}},
            NO_SIGNS,
            "vLLM · q · 4,096 context",
        ),
        ({VERSION: {"version": "1.0"}}, NO_SIGNS, "model server"),
        ({"/v1/models": {"data": [MLX_MODEL]}}, PYTHON, "mlx-lm · /models/q"),
        ({"/v1/models": {"data": [MLX_MODEL]}}, ("uvicorn", {}), "model server · /models/q"),
        (
            {"/v1/models": {"data": [MLX_MODEL | {"owned_by": "me"}]}},
            PYTHON,
            "model server · /models/q",
        ),
        ({"/v1/models": {"data": []}}, PYTHON, "model server"),
        ({"/v1/models": {"data": []}}, UVICORN, "transformers serve"),
        ({"/v1/models": {"data": [VLLM_MODEL]}}, UVICORN, "vLLM · q · 4,096 context"),
        (
            {"/v1/models": {"data": [{"id": "q", "owned_by": "organization_owner"}]}},
            NO_SIGNS,
            "LM Studio · q",
        ),
        ({"/v1/models": {"data": [{"id": "q", "owned_by": "tabbyAPI"}]}}, NO_SIGNS, "TabbyAPI · q"),
    ],
)
def test_a_server_is_known_by_its_pages_and_by_signs_besides(pages, signs, summary):
    """What they do not say is left out."""
    assert identify(pages, signs).summary == summary


@pytest.mark.parametrize(
    "name", ["\x1b[2J", "two\nlines", "\x9b31m", "a\u202eb", "", None, 7, ["x"], {"x": 1}]
)
def test_what_would_upset_a_terminal_is_left_out(name):
    """Names are printed, and the server is not ours."""
    pages = {
        "/props": PROPS | {"build_info": name},
        "/v1/models": {"data": [{"id": name}]},
        "/api/version": {"version": name},
    }
    server = identify(pages)
    assert server.version is None
    assert not server.model
    assert server.summary.isprintable()
    long = identify({"/v1/models": {"data": [{"id": "x" * 1000}]}})
    assert len(long.model) == 80


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "4096", None, [4096]])
def test_a_number_that_is_none_is_left_out(number):
    """Context and slots are positive whole numbers."""
    props = {"default_generation_settings": {"n_ctx": number}, "total_slots": number}
    assert identify({"/props": props}) == ServerFacts("llama-server")


words = st.sampled_from(
    [
        *("data", "id", "owned_by", "max_model_len", "vllm", "version", "build_info"),
        *("default_generation_settings", "n_ctx", "total_slots"),
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*marks()]), anything))
def test_whatever_the_pages_say_there_is_a_printable_summary(pages):
    """No page of a server makes the proxy fail."""
    assert identify(pages).summary.isprintable()
