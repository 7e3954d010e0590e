"""Which API a path speaks, and what its value answers."""

from __future__ import annotations

import pytest

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.completion import COMPLETION
from cacheproxy.core.dialects.dialects import DIALECTS, beside, captured_dialect, dialect_of, spoken
from cacheproxy.core.dialects.google import GOOGLE
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.ollama import OLLAMA
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.prompt.request import Request


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages", MESSAGES),
        ("/v1/messages/count_tokens", MESSAGES),
        ("/anthropic/v1/messages/", MESSAGES),
        ("/v1/chat/completions", CHAT),
        ("/chat/completions", CHAT),
        ("/openai/v1/chat/completions", CHAT),
        ("/apply-template", CHAT),
        ("/v1/responses", RESPONSES),
        ("/v1/completions", COMPLETION),
        ("/completion", COMPLETION),
        ("/completions", COMPLETION),
        ("/api/chat", OLLAMA),
        ("/api/generate", OLLAMA),
        *((path, None) for path in ("/", "", "/health", "/v1/models", "/v1/messages/batches")),
        *((path, None) for path in ("/v1/messages.txt", "/v1/mymessages", "/v1/embeddings")),
    ],
)
def test_dialect_follows_the_end_of_the_path(path, dialect):
    """Gateways put prefixes before the path, so its end decides."""
    assert dialect_of(path) is dialect
    assert Request("POST", f"{path}?next=/v1/messages").dialect is dialect


def system(content, role="system"):
    return {"role": role, "content": content}


def blocks(*texts, kind="text"):
    return [{"type": kind, "text": text} for text in texts]


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("dialect", "body", "wanted"),
    [
        (CHAT, {}, []),
        (MESSAGES, {"system": "a"}, [["a"]]),
        (MESSAGES, {"system": blocks("a", "", " \n", "b")}, [["a", "b"]]),
        (RESPONSES, {"instructions": "a", "input": "hi"}, [["a"]]),
        (CHAT, {"messages": [system("a"), system(blocks("b"), "developer"), USER]}, [["a", "b"]]),
        (
            RESPONSES,
            {"input": [system(blocks("a", kind="input_text")), USER, system("b")]},
            [["a"]],
        ),
        (OLLAMA, {"system": "a", "prompt": "hi"}, [["a"]]),
        (OLLAMA, {"messages": [system("a"), USER]}, [["a"]]),
        (CHAT, {"messages": [USER, system("a")]}, []),
        (CHAT, {"messages": [system(""), USER, system("a")]}, []),
        (MESSAGES, {"system": "a", "messages": [system("b"), USER]}, [["a"], ["b"]]),
        (RESPONSES, {"instructions": "a", "input": [system("b", "developer")]}, [["a"], ["b"]]),
        (
            CHAT,
            {"messages": [system("a"), {"role": "assistant", "content": "x"}, system("b")]},
            [["a"]],
        ),
        (CHAT, {"messages": [5, system("a")]}, []),
        (MESSAGES, {"messages": {"0": system("a")}, "system": 5, "instructions": None}, []),
        (
            MESSAGES,
            {"system": [{"type": "image", "text": "a"}, {"type": "text"}, 5, {"text": "b"}]},
            [],
        ),
        (CHAT, {"messages": [{"role": ["system"], "content": "a"}]}, []),
    ],
)
def test_it_ends_where_somebody_else_speaks(dialect, body, wanted):
    """In every dialect; blank texts, and what is no text, are left out."""
    assert dialect.opening(body) == wanted


def test_a_recorded_api_is_read_but_not_spoken():
    """Gemini's client has its own, and captures of it are read."""
    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
    assert captured_dialect(path) is GOOGLE
    assert dialect_of(path) is None
    assert captured_dialect("/v1/embeddings") is captured_dialect("/") is None


def test_each_dialect_has_a_name_and_paths_of_its_own():
    """Records keep the names."""
    assert len({each.name for each in DIALECTS}) == len(DIALECTS)
    for each in DIALECTS:
        if each.is_proxied:
            assert dialect_of(each.path) is each
            assert beside(each.path, each) == each.path


def test_who_speaks_no_api_is_answered_as_openai_does():
    """It is what most clients understand."""
    chat, unknown = spoken("/v1/chat/completions"), spoken("/v1/models")
    assert unknown.error(400, "no") == chat.error(400, "no")
    assert (unknown.key, unknown.ping) == (chat.key, chat.ping)


@pytest.mark.parametrize(
    ("dialect", "body", "wanted"),
    [
        (CHAT, {}, {"max_tokens": 9}),
        (CHAT, {"max_completion_tokens": 5}, {"max_completion_tokens": 9}),
        (MESSAGES, {"max_tokens": 5}, {"max_tokens": 9}),
        (RESPONSES, {}, {"max_output_tokens": 9}),
        (COMPLETION, {"n_predict": 5}, {"n_predict": 9}),
        (OLLAMA, {"options": {"top_k": 1}}, {"options": {"top_k": 1, "num_predict": 9}}),
        (OLLAMA, {"options": 5}, {"options": {"num_predict": 9}}),
    ],
)
def test_an_answer_is_limited_where_its_request_says_so(dialect, body, wanted):
    """Else where the API has it."""
    assert dialect.limited(body, 9) == wanted
