"""Usage read out of bodies as they pass, whatever the pieces."""

import gzip
import json
import zlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation import usage_reader as reader_module
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.http1.content_coding import zstd
from tests.core import spelling
from tests.core.counting import (
    ANTHROPIC,
    CHAT_USAGE,
    COMPLETION,
    JSON,
    NDJSON,
    OLLAMA,
    RESPONSES_USAGE,
    SSE,
    START,
    TIMINGS,
    events,
    read,
)
from tests.core.held import most_held
from tests.core.requestbytes import cut, cuts, one_by_one

BEGUN = Usage(100_298, 100_000, 503, written=248)
ZEROS = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
NULLS = {"cache_read_input_tokens": None, "cache_creation_input_tokens": None}
CACHED = {"input_tokens": 60, "cache_read_input_tokens": 100_000, "output_tokens": 503}


def delta(usage):
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


@pytest.mark.parametrize(
    ("messages", "usage"),
    [
        # Anthropic: message_start has the input; message_delta the output, and may repeat the input
        ([START, delta({"output_tokens": 503}), {"type": "message_stop"}], BEGUN),
        ([START, {"type": "ping", "delta": "usage"}, delta(ANTHROPIC["usage"])], BEGUN),
        ([START, delta({"input_tokens": 50, "output_tokens": 503})], BEGUN),
        ([START, delta(NULLS | {"input_tokens": 50, "output_tokens": 503})], BEGUN),
        ([START, delta({"input_tokens": None, "output_tokens": 503})], BEGUN),
        ([START, delta(CACHED)], Usage(100_060, 100_000, 503)),
        ([START, delta(None)], Usage(100_298, 100_000, 1, written=248)),
        # some servers begin with zeros and say the counts at the end
        (
            [
                START | {"message": {"usage": ZEROS}},
                delta({"input_tokens": 57, "output_tokens": 4}),
            ],
            Usage(57, 0, 4),
        ),
        # OpenAI: chunks before the last say null, or nothing; then comes [DONE]
        (
            [
                {"choices": [{"delta": {"content": 'a "usage"'}}], "usage": None},
                {"choices": [{"delta": {}, "finish_reason": "stop"}]},
                {"choices": [], "usage": CHAT_USAGE},
                "[DONE]",
            ],
            Usage(2006, 1920, 300),
        ),
        # Responses: response.created has none yet; response.completed has it, timings beside it
        (
            [
                {"type": "response.created", "response": {"status": "begun", "usage": None}},
                {"type": "response.output_text.delta", "delta": "a"},
                {
                    "type": "response.completed",
                    "response": {"status": "completed", "usage": RESPONSES_USAGE},
                    "timings": TIMINGS | {"cache_n": 320, "prompt_n": 8, "predicted_n": 52},
                },
            ],
            Usage(328, 320, 52, 0.030958, 0.661064),
        ),
    ],
)
def test_what_streams_say_is_counted_once(messages, usage):
    assert read(SSE, events(*messages)) == usage


@pytest.mark.parametrize("null", [b'"usage":null', b'"usage": null'])
def test_a_null_is_no_reason_to_read_an_event(null, monkeypatch):
    """Servers that say it in every chunk cost no JSON; a null beside figures hides none."""
    both = b'data: {"choices":[],%s,"response":{"usage":{"prompt_tokens":7}}}\n\n' % null
    stream = b"data: {}\n\n" + b'data: {"choices":[],%s}\n\n' % null * 1000
    assert read(SSE, stream, both, stream) == Usage(7)
    monkeypatch.setattr(reader_module, "usage_of", pytest.fail)
    assert read(SSE, stream) == Usage()


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_running_counts_end_with_the_last(end, monkeypatch):
    """Servers that count in every chunk are read to the end, though not all of it."""
    stream = events(
        *({"choices": [{}], "timings": TIMINGS | {"predicted_n": n}} for n in range(1, 2000)),
        *({"usage": {"prompt_tokens": 237, "completion_tokens": n}} for n in (34, 35)),
        "[DONE]",
    ).replace(b"\n", end)
    looked = []
    usage = reader_module.usage_of
    monkeypatch.setattr(reader_module, "usage_of", lambda one: looked.append(1) or usage(one))
    cut = [stream[at : at + 5000] for at in range(0, len(stream), 5000)]
    for chunks in ([stream], cut):
        assert read(SSE, *chunks) == Usage(237, 236, 35, 0.030958, 0.661064)
    assert len(looked) < 1500  # of 4002


def test_ollama_streams_lines():
    """The last line has the counts; the last line end may be missing."""
    lines = [{"message": {"content": "a"}, "done": False}] * 3 + [OLLAMA]
    stream = "\n".join(map(json.dumps, lines)).encode()
    assert read(NDJSON, stream) == read(NDJSON, stream + b"\n") == usage_of(OLLAMA)
    assert read("application/jsonl", stream) == usage_of(OLLAMA)


@pytest.mark.parametrize(
    ("content_type", "codings", "reused"),
    [
        # it has no case (RFC 9110, section 8.3.1)
        *(("Application/JSON", (), 1920), ("application/problem+json", (), 1920)),
        ("TEXT/EVENT-STREAM", (), 1920),
        # text that is no JSON, or packed in a way that cannot be undone
        *(("", (), None), ("text/html", (), None), (JSON, [b"br"], None), (SSE, [b"br"], None)),
    ],
)
def test_which_bodies_are_looked_into(content_type, codings, reused):
    message = {"usage": CHAT_USAGE}
    body = events(message) if "event" in content_type.lower() else json.dumps(message).encode()
    assert read(content_type, body, codings=codings).reused == reused


PACKERS = {
    b"gzip": partial(zlib.compressobj, wbits=31),
    b"deflate": zlib.compressobj,
    b"zstd": zstd.ZstdCompressor,
}


@pytest.mark.parametrize("coding", PACKERS)
def test_packed_bodies_are_unpacked_as_they_pass(coding):
    """Each event when it comes, however small its pieces; what was read before a fault stays."""
    packer = PACKERS[coding]()
    flush = packer.FLUSH_BLOCK if coding == b"zstd" else zlib.Z_SYNC_FLUSH
    packed = packer.compress(events({"usage": CHAT_USAGE})) + packer.flush(flush)
    for chunks in ([packed], [packed[i : i + 1] for i in range(len(packed))], [packed, b"x" * 99]):
        assert read(SSE, *chunks, codings=[coding]) == usage_of({"usage": CHAT_USAGE})
    whole = packed + packer.flush()
    assert read(JSON, b"no " + whole, codings=[coding]) == Usage()


def test_a_bomb_has_no_usage():
    """What a piece of it comes to would hold the reactor."""
    packed = gzip.compress(b" " * (8 << 20) + json.dumps({"usage": CHAT_USAGE}).encode())
    found = []
    held = most_held(lambda: found.append(read(JSON, packed, codings=[b"gzip"])), 1)
    assert found == [Usage()]
    assert held < 4 << 20


def test_too_long_a_body_has_no_usage(monkeypatch):
    """What is over the limit is not kept; a too long line is skipped, the next is read."""
    monkeypatch.setattr(reader_module, "_LONGEST_MESSAGE", 500)
    message = json.dumps({"usage": CHAT_USAGE}).encode()
    long_message = json.dumps({"usage": {"prompt_tokens": 5}, "x": "y" * 500}).encode()
    assert read(JSON, long_message) == Usage()
    for size in (1, 100, 10_000):
        lines = long_message + b"\n" + message + b"\n" + long_message
        chunks = [lines[i : i + size] for i in range(0, len(lines), size)]
        assert read(NDJSON, *chunks) == Usage(2006, 1920, 300)
    assert read(SSE, b"data: " + long_message + b"\n\n") == Usage()
    assert read(SSE, b"data: " + long_message + b"\n\ndata: " + message + b"\n\n").reused == 1920
    reader = UsageReader(JSON)
    assert most_held(lambda: reader.feed(b"x" * 1000), 1000) < 100_000


bodies = st.one_of(
    st.binary(max_size=60),
    spelling.document.map(str.encode),
    st.lists(
        st.sampled_from(
            [
                events(START),
                events({"type": "message_delta", "usage": {"output_tokens": 5}}),
                events({"usage": CHAT_USAGE}),
                events("[DONE]"),
                events(OLLAMA),
                b'data: {"usage": {"prompt_tokens": 1' + b"0" * 5000 + b"}}\n\n",
                b'data: {"usage": ' + b"[" * 5000 + b"\n\n",
                b'data: {"usage": "\xff"}\n\n',
                b'data: {"usage"\r\ndata: : {"prompt_tokens": 7}}\r\n\r\n',
                json.dumps({"usage": CHAT_USAGE}).encode() + b"\r\n",
                json.dumps(OLLAMA).encode() + b"\n",
                json.dumps(COMPLETION | {"timings": TIMINGS}).encode(),
                b'\xef\xbb\xbf{"usage": {"prompt_tokens": 9}}',
                b'"usage"',
                b"\n",
                b"\r",
                b"\0",
            ]
        ),
        max_size=5,
    ).map(b"".join),
)


regions = st.tuples(
    st.sampled_from([0, 50, reader_module._TOGETHER]),
    st.sampled_from([9, 300, reader_module._LAST]),
)
"""Below how many bytes chunks are looked at together; how many last ones are searched for all."""


@given(
    bodies,
    st.sampled_from([SSE, JSON, NDJSON, "", "json event-stream ndjson"]),
    cuts,
    st.integers(0, 200) | st.just(reader_module._LONGEST_MESSAGE),
    regions,
)
def test_any_bytes_in_any_chunks_give_the_same_usage(body, content_type, places, longest, regions):
    """Nothing raises; how the bytes were cut does not matter, nor what is too long to be read."""
    together, late = regions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "_LONGEST_MESSAGE", longest)
        patch.setattr(reader_module, "_LAST", late)
        whole = read(content_type, body)
        patch.setattr(reader_module, "_TOGETHER", together)
        if longest > 200:
            patch.setattr(reader_module, "_MOST_READ", together)  # the rest is held for a while
        assert read(content_type, *cut(body, places)) == whole
        assert read(content_type, *one_by_one(body)) == whole


DELTA = {"type": "content_block_delta", "delta": {"text": 'a \\"error\\" and \\"usage\\"'}}
CHUNK = {"choices": [{"delta": {"content": "failed, cancelled"}}], "usage": None}
FILTERED = {"incomplete_details": {"reason": "filter"}, "instructions": "y" * 300}
LAST = {
    "an error": ([START, DELTA, {"type": "error", "error": {"message": "no"}}], True, 100_298),
    "an early one": ([CHUNK, {"error": {"message": "no"}}, *[CHUNK] * 9, "[DONE]"], True, None),
    "a choice's": ([CHUNK, {"choices": [{"finish_reason": "error"}]}, "[DONE]"], True, None),
    **{
        status: ([DELTA, {"type": f"response.{status}", "response": whole}], True, None)
        for status in ("failed", "incomplete", "cancelled")
        for whole in [{"status": status, **FILTERED}]
    },
    "a refused prompt": ([CHUNK, {"promptFeedback": {"blockReason": "SAFETY"}}], True, None),
    "counts, then an end": ([CHUNK, {"usage": CHAT_USAGE}, "[DONE]"], False, 2006),
    "times": ([CHUNK, {"choices": [], "timings": TIMINGS}, "[DONE]"], False, 237),
    "an end, then an error": ([DELTA, {"type": "message_stop"}, {"error": "no"}], False, None),
    "a [DONE], then an error": ([CHUNK, "[DONE]", {"error": "no"}], False, None),
}


@pytest.mark.parametrize("name", LAST)
def test_failures_ends_and_counts_are_found_wherever_the_body_is_split(name, monkeypatch):
    """Also behind more bytes than are looked at together, and with both line ends."""
    (first, *more), has_failed, prompt = LAST[name]
    monkeypatch.setattr(reader_module, "_LAST", 200)
    monkeypatch.setattr(reader_module, "_TOGETHER", 60)
    for end in (b"\n", b"\r\n"):
        body = events(*[first] * 4, *more).replace(b"\n", end)
        for at in range(len(body)):
            reader = UsageReader(SSE)
            for piece in (body[:at], body[at:]):
                reader.feed(piece)
            assert reader.close().prompt == prompt, at
            assert (reader.failure is not None) == has_failed, at


def test_a_cut_body_has_the_usage_it_came_to():
    """A stream that breaks off keeps what message_start said; a cut JSON has none."""
    stream = events(START, {"type": "message_delta", "usage": {"output_tokens": 503}})
    assert read(SSE, stream[:-5]) == Usage(100_298, 100_000, 1, written=248)
    assert read(JSON, json.dumps(ANTHROPIC).encode()[:-1]) == Usage()
    assert UsageReader(SSE).close() == UsageReader(JSON).close() == Usage()
