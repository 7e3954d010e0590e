"""What the real server says of reuse, read in each dialect's own arithmetic."""

import json
from contextlib import closing

import pytest

from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.kinds.prefill import PrefillReader
from cacheproxy.http_client import Site

from .replay import erase

WORDS = "The quick brown fox jumps over the lazy dog. " * 40
MESSAGES = [{"role": "user", "content": WORDS}]
ASKED = {
    "/v1/messages": {"max_tokens": 4, "messages": MESSAGES},
    "/v1/chat/completions": {
        "max_tokens": 4,
        "messages": MESSAGES,
        "stream_options": {"include_usage": True},
    },
    "/v1/responses": {"max_output_tokens": 4, "input": WORDS},
    "/completion": {"n_predict": 4, "prompt": WORDS, "cache_prompt": True},
}


def usage_of(url, path, *, stream):
    """Ask once, and read the answer in small pieces, as it may come."""
    body = json.dumps({"model": "random", "stream": stream, **ASKED[path]}).encode()
    data = Site(url).post(path, body).body
    reader = UsageReader("text/event-stream" if stream else "application/json")
    for at in range(0, len(data), 97):
        reader.feed(data[at : at + 97])
    return reader.close()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ASKED)
def test_reused_and_evaluated_add_up_to_the_prompt(llama, path, stream):
    """The first time all is evaluated, the second time nearly all is reused."""
    erase(llama.url)
    first = usage_of(llama.url, path, stream=stream)
    second = usage_of(llama.url, path, stream=stream)
    assert first.prompt == second.prompt
    assert first.prompt > 100
    assert first.reused == 0
    assert first.evaluated == first.prompt
    assert first.prompt - 8 <= second.reused < second.prompt
    assert second.evaluated == second.prompt - second.reused
    assert second.output == 4


def test_how_far_it_is_with_a_prompt_is_told_to_who_asked(llama):
    """Without what was cached, as far as the answer's beginning; by what usage says, too."""
    erase(llama.url)
    for words in (WORDS * 6, WORDS * 12):
        message = {"role": "user", "content": words}
        body = {"model": "random", "messages": [message], "stream": True, "max_tokens": 1}
        body |= {"return_progress": True, "stream_options": {"include_usage": True}}
        reader, usage = PrefillReader(), UsageReader("text/event-stream")
        told, site = [], Site(llama.url)
        with closing(site.connect()) as connection:
            sent = json.dumps(body).encode()
            response = site.begin(connection, "POST", "/v1/chat/completions", sent)
            while chunk := response.read1(1 << 16):
                if not reader.has_begun:
                    reader.feed(chunk)
                told.append(reader.progress)
                usage.feed(chunk)
        assert reader.has_begun
        evaluated = usage.close().evaluated
        assert told[0].done < told[-1].done == told[-1].total == evaluated
