"""A small random model of the llama architecture, written to a GGUF file in a blink.

Its answers are meaningless, yet everything around the words is real: the tokenizer, the chat
template, the KV cache, the time of each prompt token. Nothing is downloaded, and the same
arguments give the same bytes on every machine.
"""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from cacheproxy_demo.embedded import gguf
from cacheproxy_demo.embedded.gguf import Tensor, Value
from cacheproxy_demo.embedded.vocabulary import (
    BEGIN_OF_TEXT,
    CONTROL,
    END_OF_TURN,
    USER_DEFINED,
    Vocabulary,
    learn_vocabulary,
)

Size = Literal["tiny", "slow"]
LateSystem = Literal["inline", "hoisted", "refused"]

PLAIN_WORDS = " of or in is to for and the not if" * 2
"""Default text for the vocabulary, so that answers consist of words."""

RMS_EPSILON = 1e-5
ROPE_BASE = 1e6

_NORMAL_TYPE, _CONTROL_TYPE, _USER_DEFINED_TYPE = 1, 3, 4
_NOISE_LENGTH = 1 << 18


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a model, which decide its size and the time of a token."""

    layers: int  #: number of layers
    width: int  #: length of a token's vector
    heads: int  #: number of attention heads
    kv_heads: int  #: number of heads for keys and values
    feed_forward: int  #: width of the hidden layer

    @property
    def head_width(self) -> int:
        """Number of channels of one attention head."""
        return self.width // self.heads


SHAPES: dict[Size, Shape] = {
    "tiny": Shape(layers=2, width=64, heads=4, kv_heads=2, feed_forward=128),
    "slow": Shape(layers=4, width=256, heads=4, kv_heads=2, feed_forward=768),
}
"""Shapes by size: on two cores 23,000 prompt tokens take about 4.5 s (tiny) or 18 s (slow)."""


def write_model(
    path: Path,
    *,
    size: Size = "tiny",
    text: str = PLAIN_WORDS,
    merges: int = 16_384,
    template: str | None = None,
    context: int = 262_144,
    seed: int = 1,
) -> Path:
    """Write a random model to ``path`` and return it.

    The vocabulary is learnt from ``text``, with at most ``merges`` merges; if prompts have the same
    text, a token is about a word. ``template`` is a Jinja chat template, by default
    ``default_template()``. ``context`` is the trained length in tokens; it costs no memory, unlike
    the server's ``n_ctx``.
    """
    shape = SHAPES[size]
    vocabulary = learn_vocabulary(text, merges)
    chat_template = default_template() if template is None else template
    values = {
        **_architecture(shape, context, len(vocabulary.tokens)),
        **_tokenizer(vocabulary),
        "general.name": gguf.string(f"random-{size}"),
        "tokenizer.chat_template": gguf.string(chat_template),
    }
    gguf.write_gguf(path, values, list(_tensors(shape, vocabulary, seed)))
    return path


@cache
def default_template(late_system: LateSystem = "inline") -> str:
    """Return this package's ChatML template, with the system text first, then the tools.

    ``late_system``: its treatment of a system message after the first. Vendors' templates have
    each of these: Qwen3 ``inline``, DeepSeek V3.x ``hoisted``, Qwen3.5 ``refused``.
    """
    template = files(__package__).joinpath("chatml.jinja").read_text(encoding="utf-8")
    return template.replace("late_system = 'inline'", f"late_system = '{late_system}'", 1)


def _architecture(shape: Shape, context: int, tokens: int) -> dict[str, Value]:
    """Return the metadata of the model's shape; ``tokens``: size of the vocabulary."""
    return {
        "general.architecture": gguf.string("llama"),
        "llama.context_length": gguf.uint32(context),
        "llama.embedding_length": gguf.uint32(shape.width),
        "llama.block_count": gguf.uint32(shape.layers),
        "llama.feed_forward_length": gguf.uint32(shape.feed_forward),
        "llama.attention.head_count": gguf.uint32(shape.heads),
        "llama.attention.head_count_kv": gguf.uint32(shape.kv_heads),
        "llama.attention.layer_norm_rms_epsilon": gguf.float32(RMS_EPSILON),
        "llama.rope.dimension_count": gguf.uint32(shape.head_width),
        "llama.rope.freq_base": gguf.float32(ROPE_BASE),
        "llama.vocab_size": gguf.uint32(tokens),
    }


def _tokenizer(vocabulary: Vocabulary) -> dict[str, Value]:
    """Return the metadata of the tokenizer: tokens, their types, merges."""
    types = (
        [_NORMAL_TYPE] * len(vocabulary.ordinary)
        + [_CONTROL_TYPE] * len(CONTROL)
        + [_USER_DEFINED_TYPE] * len(USER_DEFINED)
    )
    return {
        "tokenizer.ggml.model": gguf.string("gpt2"),
        "tokenizer.ggml.pre": gguf.string("gpt-2"),
        "tokenizer.ggml.tokens": gguf.strings(vocabulary.tokens),
        "tokenizer.ggml.token_type": gguf.int32s(types),
        "tokenizer.ggml.merges": gguf.strings([" ".join(pair) for pair in vocabulary.merges]),
        "tokenizer.ggml.bos_token_id": gguf.uint32(vocabulary.id_of(BEGIN_OF_TEXT)),
        "tokenizer.ggml.eos_token_id": gguf.uint32(vocabulary.id_of(END_OF_TURN)),
        "tokenizer.ggml.add_bos_token": gguf.boolean(False),
    }


def _tensors(shape: Shape, vocabulary: Vocabulary, seed: int) -> Iterator[Tensor]:
    """Yield all weights, in the order of their use.

    Channel 0 of the residual stream is a constant that no block writes to. Column 0 of the output
    matrix is therefore a bias for each token: only a few plain words and the end of the turn are
    ever likely, so that answers are short and printable.
    """
    weights = _Weights(seed)
    tokens, width, kv_width = len(vocabulary.tokens), shape.width, shape.kv_heads * shape.head_width
    embedding = weights.matrix("token_embd.weight", tokens, width, scale=1.0)
    embedding.data[::width] = array("f", [4.0]) * tokens
    yield embedding
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        yield _ones(f"{block}.attn_norm.weight", width)
        yield weights.matrix(f"{block}.attn_q.weight", width, width)
        yield weights.matrix(f"{block}.attn_k.weight", kv_width, width)
        yield weights.matrix(f"{block}.attn_v.weight", kv_width, width)
        yield _silent_first_row(weights.matrix(f"{block}.attn_output.weight", width, width))
        yield _ones(f"{block}.ffn_norm.weight", width)
        yield weights.matrix(f"{block}.ffn_gate.weight", shape.feed_forward, width)
        yield weights.matrix(f"{block}.ffn_up.weight", shape.feed_forward, width)
        down = weights.matrix(f"{block}.ffn_down.weight", width, shape.feed_forward)
        yield _silent_first_row(down)
    yield _ones("output_norm.weight", width)
    output = weights.matrix("output.weight", tokens, width)
    output.data[::width] = _biases(vocabulary)
    yield output


def _biases(vocabulary: Vocabulary) -> array[float]:
    """Return a bias for each token: likely are the end of the turn and 30 plain words."""
    biases = array("f", [-8.0]) * len(vocabulary.tokens)
    plain = (
        index
        for index, token in enumerate(vocabulary.ordinary)
        if re.fullmatch("Ġ[a-z]{2,10}", token)
    )
    for _, index in zip(range(30), plain, strict=False):
        biases[index] = 4.0
    biases[vocabulary.id_of(END_OF_TURN)] = 4.5
    return biases


class _Weights:
    """The source of matrices of normal noise.

    A row is a slice of one long strip of noise, at a random place: drawing millions of numbers
    one by one would take seconds in pure Python, and the rows would be no better.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random()  # noqa: S311 (noise, no secrets)
        self._noise, state = _noise(seed)
        self._random.setstate(state)
        self._strips: dict[float, array[float]] = {}

    def matrix(self, name: str, rows: int, columns: int, scale: float | None = None) -> Tensor:
        """Return noise of standard deviation ``scale``, by default ``columns ** -0.5``."""
        factor = columns**-0.5 if scale is None else scale
        strip = self._strips.get(factor)
        if strip is None:
            strip = self._strips[factor] = array("f", [factor * one for one in self._noise])
        data = array("f")
        for _ in range(rows):
            start = self._random.randrange(_NOISE_LENGTH - columns)
            data += strip[start : start + columns]
        return Tensor(name, rows, columns, data)


@cache
def _noise(seed: int) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    """Return the strip, and the generator's state after it; drawing it takes 0.25 s."""
    drawn = random.Random(seed)  # noqa: S311 (noise, no secrets)
    return tuple(drawn.gauss(0.0, 1.0) for _ in range(_NOISE_LENGTH)), drawn.getstate()


def _ones(name: str, width: int) -> Tensor:
    """Return a tensor of one row of ones."""
    return Tensor(name, 1, width, array("f", [1.0]) * width)


def _silent_first_row(tensor: Tensor) -> Tensor:
    """Return ``tensor`` itself, with its first row set to zeros."""
    tensor.data[: tensor.columns] = array("f", bytes(4 * tensor.columns))
    return tensor
