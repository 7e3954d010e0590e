"""How far a server is with a prompt, and when its answer begins."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.servers.prefill import PrefillReader, Progress


def chunk(**progress):
    """As llama-server sends it."""
    delta = {"role": "assistant", "content": None}
    value = {"choices": [{"index": 0, "delta": delta}], "prompt_progress": progress}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def read(*chunks):
    """Return the last progress, and the number of the chunk with which the answer began."""
    reader = PrefillReader()
    for number, each in enumerate(chunks):
        if reader.feed(each):
            return reader.progress, number
    return reader.progress, None


def test_comments_of_mlx_lm_tell_how_far_it_is():
    comments = [b": keepalive %d/4900\n\n" % done for done in (2048, 4096, 4899, 4900)]
    assert read(comments[0]) == (Progress(2048, 4900), None)
    assert read(*comments, b"data: {}\n\n") == (Progress(4900, 4900), 4)
    assert read(b"".join(comments) + b"data: {}\n\n") == (Progress(4900, 4900), 0)
    assert read(b": keepalive 20", b"48/4900\n", b"\n") == (Progress(2048, 4900), None)


def test_chunks_of_llama_server_tell_it_without_what_was_cached():
    first = chunk(total=11_000, cache=1000, processed=1000, time_ms=1)
    second = chunk(total=11_000, cache=1000, processed=3000, time_ms=900)
    assert read(first, second) == (Progress(2000, 10_000), None)
    assert read(first, second[:40], second[40:]) == (Progress(2000, 10_000), None)
    assert read(first, second, b'data: {"choices":[]}\n\n') == (Progress(2000, 10_000), 2)


@pytest.mark.parametrize(
    "sign",
    [
        *(b":\n\n", b": ping\r\n\r\n", b":keepalive\n\n", b"\n", b": keepalive 1/0\n\n"),
        *(b": keepalive 5/4\n", b": keepalive -1/4\n", b": keepalive x/4\n"),
        *(b": keepalive 1/4/5\n", b": keepalive " + b"9" * 5000 + b"/" + b"9" * 5000 + b"\n"),
    ],
)
def test_other_signs_of_life_are_no_answer_and_tell_nothing(sign):
    assert read(sign, sign, b"data: {}\n\n") == (None, 2)


@pytest.mark.parametrize(
    "answer",
    [
        *(b"data: {}", b"event: message_start\n", b"x", b"data", b'data: {"prompt_progress"'),
        *(b'data: {"prompt_progress": 7}\n', b'data: ["prompt_progress"\n'),
        b":" + b"x" * 20_000,  # a line without end costs bounded memory
    ],
)
def test_anything_else_is_the_answer(answer):
    """Also a piece of it; where nothing was told of the prompt, nothing is waited for."""
    assert read(answer) == (None, 0)


@pytest.mark.parametrize("odd", [-1, "5", 5.0, True, None, [], 1 << 60])
def test_odd_chunks_tell_nothing(odd):
    assert read(chunk(total=odd, cache=0, processed=1)) == (None, None)
    assert read(chunk(total=9, cache=0, processed=odd)) == (None, None)
    assert read(chunk(total=9, cache=8, processed=3)) == (None, None)


@given(st.lists(st.integers(0, 200), max_size=8))
def test_how_comments_were_cut_does_not_matter(cuts):
    body = b": keepalive 2048/4900\n\n:\n\n: keepalive 4900/4900\n\n"
    bounds = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:stop] for start, stop in pairwise(bounds)]
    assert read(*pieces) == (Progress(4900, 4900), None)
