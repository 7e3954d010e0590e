"""What servers say of usage, in each dialect's own words."""

import json
from collections.abc import Sequence

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.usage_reader import UsageReader

SSE = "text/event-stream; charset=utf-8"
JSON = "application/json"
NDJSON = "application/x-ndjson"


def read(content_type: str, *chunks: bytes, codings: Sequence[bytes] = ()) -> Usage:
    reader = UsageReader(content_type, codings=codings)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.close()


def events(*messages: object) -> bytes:
    """The messages as a stream of events, named as Anthropic and Responses name them."""
    lines = []
    for message in messages:
        kind = message.get("type") if isinstance(message, dict) else None
        lines += [f"event: {kind}\n"] if kind else []
        lines.append(f"data: {message if isinstance(message, str) else json.dumps(message)}\n\n")
    return "".join(lines).encode()


# Anthropic, "Prompt caching": total input is the sum of the three input fields.
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello!"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 50,
        "cache_read_input_tokens": 100_000,
        "cache_creation_input_tokens": 248,
        "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
        "output_tokens": 503,
        "service_tier": "standard",
    },
}
# OpenAI, "Prompt caching": prompt_tokens includes cached_tokens.
CHAT_USAGE = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
RESPONSES_USAGE = {
    "input_tokens": 328,
    "input_tokens_details": {"cached_tokens": 320},
    "output_tokens": 52,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 380,
}
# llama.cpp, result_timings::to_json().
TIMINGS = {
    "cache_n": 236,
    "prompt_n": 1,
    "prompt_ms": 30.958,
    "prompt_per_token_ms": 30.958,
    "prompt_per_second": 32.301,
    "predicted_n": 35,
    "predicted_ms": 661.064,
    "predicted_per_token_ms": 18.887,
    "predicted_per_second": 52.94,
}
# llama.cpp's native /completion: tokens_cached counts what the slot holds afterwards.
COMPLETION = {
    "index": 0,
    "content": " there",
    "id_slot": 0,
    "stop": True,
    "tokens_predicted": 35,
    "tokens_evaluated": 237,
    "tokens_cached": 271,
    "truncated": False,
}
# Ollama, docs/api.md, the last line of a stream.
OLLAMA = {
    "model": "llama3.2",
    "created_at": "2023-08-04T19:22:45.499127Z",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}

START = {
    "type": "message_start",
    "message": ANTHROPIC | {"usage": ANTHROPIC["usage"] | {"output_tokens": 1}},
}
