"""An exchange in the words of the GenAI conventions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.record.exchange import Outcome
from cacheproxy.record.genai import describe
from tests.observe.exchanges import body, exchange

SAID = body("a", model="qwen")


def asked(path, said=SAID, method="POST", headers=(), **changes):
    request = Request(method, path, headers, json.dumps(said).encode() if said else b"")
    return replace(exchange(SAID), received=request, sent=request, **changes)


def test_a_turn():
    """What a backend for model traffic needs: operation, model, tokens; cached ones included."""
    broke = Verdict(Judgement.BREAK, Reason.TOOLS_CHANGED, lost=TokenCount(90, "measured"))
    reports = (
        RuleReport("stamp", (Edit("/system", "x", "y"),)),
        RuleReport("broken", error="ValueError"),
    )
    name, found = describe(
        exchange(
            SAID,
            usage=Usage(1000, 900, 50),
            upstream="https://gpu.example:8443/llm",
            turn=3,
            verdict=broke,
            reports=reports,
            sent_after=0.1,
        )
    )
    assert name == "chat qwen"
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "qwen",
        "gen_ai.conversation.id": "s",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.cache_read.input_tokens": 900,
        "gen_ai.usage.output_tokens": 50,
        "server.address": "gpu.example",
        "server.port": 8443,
        "http.response.status_code": 200,
        "cacheproxy.client": "agent",
        "cacheproxy.outcome": "complete",
        "cacheproxy.turn": 3,
        "cacheproxy.side": False,
        "cacheproxy.verdict": "BREAK",
        "cacheproxy.break.reason": "tools_changed",
        "cacheproxy.break.lost_tokens": 90,
        "cacheproxy.rules": ("stamp",),
        "cacheproxy.added_latency": 0.1,
    }


@pytest.mark.parametrize(
    ("path", "operation", "provider"),
    [
        ("/v1/messages", "chat", "anthropic"),
        ("/openai/v1/chat/completions?x=1", "chat", "openai"),
        ("/v1/responses", "chat", "openai"),
        ("/api/chat", "chat", "ollama"),
        ("/api/generate", "text_completion", "ollama"),
        ("/v1/completions", "text_completion", "openai"),
        ("/completion", "text_completion", "llama.cpp"),
        ("/v1/embeddings", "embeddings", "openai"),
        ("/embedding", "embeddings", "llama.cpp"),
        ("/api/embed", "embeddings", "ollama"),
    ],
)
def test_operation_and_provider_are_told_by_the_path(path, operation, provider):
    name, found = describe(asked(path))
    assert name == f"{operation} qwen"
    assert found["gen_ai.operation.name"] == operation
    assert found["gen_ai.provider.name"] == provider


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/v1/models", "GET"),
        ("POST", "/v1/messages/count_tokens", "POST"),
        ("POST", "/apply-template", "POST"),
        ("BREW", "/pot", "HTTP"),
    ],
)
def test_requests_for_no_model_are_named_by_their_method(method, path, name):
    """Their path may be anything, so it is in no name."""
    called, found = describe(asked(path, None if method == "GET" else SAID, method))
    assert called == name
    assert not [key for key in found if key.startswith("gen_ai.")]


def test_a_stream():
    """Its first chunk is timed from when the request was sent on."""
    said = SAID | {"stream": True}
    _, found = describe(asked("/v1/messages", said, sent_after=0.25, first_byte=0.75))
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.time_to_first_chunk"] == 0.5
    _, found = describe(asked("/v1/messages", sent_after=0.25, first_byte=0.75))
    assert "gen_ai.request.stream" not in found
    assert "gen_ai.response.time_to_first_chunk" not in found


def test_figures_of_the_request_have_the_right_types():
    """What is no figure is left out: any JSON may stand there."""
    said = SAID | {"max_tokens": 5, "temperature": 1, "top_p": "x", "top_k": True, "seed": 1 << 80}
    _, found = describe(asked("/v1/messages", said))
    figures = {key: value for key, value in found.items() if key.startswith("gen_ai.request.")}
    assert figures == {
        "gen_ai.request.model": "qwen",
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.temperature": 1.0,
    }
    assert type(figures["gen_ai.request.temperature"]) is float


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [
        (Outcome.COMPLETE, 200, None),
        (Outcome.COMPLETE, 429, "429"),
        (Outcome.UPSTREAM_FAILED, 502, "upstream_failed"),
        (Outcome.REFUSED, 400, "refused"),
        (Outcome.CLIENT_LEFT, None, None),
    ],
)
def test_errors(outcome, status, error):
    _, found = describe(exchange(SAID, outcome=outcome, status=status))
    assert found.get("error.type") == error


def test_no_text_and_no_key_is_in_it():
    """Wherever it stands in the request."""
    key = "sk-ant-api03-Kanarie47114711"
    said = body("kanarie", system="kanarie", tools=("kanarie",), model=key)
    headers = ((b"x-api-key", b"geheim4711geheim"), (b"user-agent", key.encode()))
    turn = asked("/v1/messages?key=kanarie", said, headers=headers, error="kanarie")
    turn = replace(turn, session=turn.session._replace(id="geheim4711geheim"))
    found = describe(turn)
    assert "kanarie" not in repr(found).lower()
    assert "geheim" not in repr(found)


def test_names_are_cut_and_can_be_printed():
    name, _ = describe(asked("/v1/messages", SAID | {"model": "m\n\ud83d" + "x" * 100_000}))
    assert len(name) < 300
    assert name.isprintable()
    name.encode()
