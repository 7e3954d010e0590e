"""A stream of the real server's, made a whole body, is what it says at once."""

import json

import pytest

from cacheproxy.core.dialects.dialects import dialect_of
from tests.core.dialects.forms import streamed, whole

from .replay import erase, post
from .test_translate_messages import SAID, THINKING

pytestmark = pytest.mark.llama

ASKED = {
    "/v1/chat/completions": {
        "messages": SAID, "max_tokens": 12, "stream_options": {"include_usage": True},
        "logprobs": True, "top_logprobs": 1,
    },
    "/v1/messages": {"messages": SAID, "max_tokens": 12},
    "/v1/responses": {"input": SAID, "max_output_tokens": 12},
}  # fmt: skip
VOLATILE = {"id", "created", "created_at", "completed_at", "timings"}


def same(value):
    """``value`` without what no two answers have in common, and what it streams without."""
    if isinstance(value, list):
        return [same(one) for one in value]
    if not isinstance(value, dict):
        return value
    left_out = VOLATILE | ({"status"} if value.get("type") == "reasoning" else set())
    return {name: same(one) for name, one in value.items() if name not in left_out}


@pytest.mark.parametrize("thinks", [False, True], ids=["says", "thinks"])
@pytest.mark.parametrize("path", ASKED)
def test_a_stream_made_whole_is_the_whole_answer(path, thinks, llama, serve):
    """Texts, reasoning, usage and why it ended; and a stream made of that is whole again."""
    server, dialect = serve(THINKING, n_ctx=4096) if thinks else llama, dialect_of(path)
    found = []
    for more in ({}, {"stream": True}):
        erase(server.url)
        body = {"model": "random", "temperature": 0, "seed": 1, **ASKED[path], **more}
        status, answer = post(server.url, path, json.dumps(body).encode())
        assert status == 200
        found.append(answer)
    at_once, made = json.loads(found[0]), whole(dialect, found[1])
    assert same(made) == same(at_once)
    for body in (at_once, made):
        assert whole(dialect, streamed(dialect, body)) == body
