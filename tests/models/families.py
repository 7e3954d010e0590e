"""Tiny random models of the families whose cache cannot go back to any token.

Beside the embedded model (full attention) these are what today's servers run: sliding windows
(Gemma 3, gpt-oss), recurrent layers beside attention (Qwen3.5, Qwen3-Next) and short convolutions
(LFM2). llama.cpp keeps checkpoints of their state and goes back to these alone. As with the
embedded model, the same arguments give the same bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cacheproxy_demo.embedded import gguf
from cacheproxy_demo.embedded.gguf import Tensor, Value
from cacheproxy_demo.embedded.model import (
    PLAIN_WORDS,
    RMS_EPSILON,
    ROPE_BASE,
    _biases,
    _ones,
    _silent_first_row,
    _tokenizer,
    _Weights,
    default_template,
    write_model,
)
from cacheproxy_demo.embedded.vocabulary import Vocabulary, learn_vocabulary

CONTEXT = 262_144
WIDTH, HEAD, FORWARD, EXPERTS = 64, 16, 64, 4


@dataclass(frozen=True, slots=True)
class Family:
    """What tells one architecture from the others.

    ``attention``: the layers that attend; the others are recurrent or convolutions. ``values``:
    what its header holds beside what all have, without the prefix.
    """

    layers: int
    attention: frozenset[int]
    values: dict[str, Value]
    heads: int = 2
    kv_heads: int = 1


_RECURRENT = {"conv_kernel": 4, "inner_size": 64, "state_size": 16}
_RECURRENT |= {"time_step_rank": 4, "group_count": 2}
_HYBRID = {f"ssm.{name}": gguf.uint32(number) for name, number in _RECURRENT.items()}
_HYBRID |= {
    "full_attention_interval": gguf.uint32(4),
    "rope.dimension_sections": gguf.int32s([4, 2, 2, 0]),
}
_EXPERTS = {
    "expert_count": gguf.uint32(EXPERTS),
    "expert_used_count": gguf.uint32(2),
    "expert_feed_forward_length": gguf.uint32(FORWARD),
}
_EVERY_LAYER = frozenset(range(6))

FAMILIES = {
    "gemma3": Family(6, _EVERY_LAYER, {"attention.sliding_window": gguf.uint32(1024)}),
    "gpt-oss": Family(4, _EVERY_LAYER, _EXPERTS | {"attention.sliding_window": gguf.uint32(128)}),
    "qwen35": Family(4, frozenset({3}), _HYBRID),
    "qwen3next": Family(
        4,
        frozenset({3}),
        _HYBRID | _EXPERTS | {"expert_shared_feed_forward_length": gguf.uint32(FORWARD)},
    ),
    "lfm2": Family(
        4, frozenset({1, 3}), {"shortconv.l_cache": gguf.uint32(3)}, heads=4, kv_heads=2
    ),
}
"""By the name that llama.cpp has for the architecture."""


def write_family(
    path: Path,
    name: str,
    *,
    text: str = PLAIN_WORDS,
    merges: int = 16_384,
    template: str | None = None,
    seed: int = 1,
) -> Path:
    """Write a random model of the family ``name`` to ``path``, ``llama`` for the embedded one.

    The other arguments are those of ``write_model``.
    """
    if name == "llama":
        return write_model(path, text=text, merges=merges, template=template, seed=seed)
    family = FAMILIES[name]
    vocabulary = learn_vocabulary(text, merges)
    values = {
        **_header(name, family, len(vocabulary.tokens)),
        **_tokenizer(vocabulary),
        "general.name": gguf.string(f"random-{name}"),
        "tokenizer.chat_template": gguf.string(
            default_template() if template is None else template
        ),
    }
    gguf.write_gguf(path, values, list(_Tensors(name, family, vocabulary, seed)))
    return path


def _header(name: str, family: Family, tokens: int) -> dict[str, Value]:
    # a count for each layer, where some of them do not attend
    each = [family.kv_heads if layer in family.attention else 0 for layer in range(family.layers)]
    kv_heads = gguf.int32s(each) if name == "lfm2" else gguf.uint32(family.kv_heads)
    values = {
        "context_length": gguf.uint32(CONTEXT),
        "embedding_length": gguf.uint32(WIDTH),
        "block_count": gguf.uint32(family.layers),
        "feed_forward_length": gguf.uint32(FORWARD),
        "attention.head_count": gguf.uint32(family.heads),
        "attention.head_count_kv": kv_heads,
        "attention.key_length": gguf.uint32(HEAD),
        "attention.value_length": gguf.uint32(HEAD),
        "attention.layer_norm_rms_epsilon": gguf.float32(RMS_EPSILON),
        "rope.dimension_count": gguf.uint32(HEAD),
        "rope.freq_base": gguf.float32(ROPE_BASE),
        "vocab_size": gguf.uint32(tokens),
        **family.values,
    }
    return {"general.architecture": gguf.string(name)} | {
        f"{name}.{key}": value for key, value in values.items()
    }


class _Tensors:
    """All weights of a model; channel 0 of the residual stream stays a constant, see model.py."""

    def __init__(self, name: str, family: Family, vocabulary: Vocabulary, seed: int) -> None:
        self._name = name
        self._family = family
        self._vocabulary = vocabulary
        self._weights = _Weights(seed)

    def __iter__(self) -> Iterator[Tensor]:
        tokens = len(self._vocabulary.tokens)
        embedding = self._weights.matrix("token_embd.weight", tokens, WIDTH, scale=1.0)
        embedding.data[::WIDTH] = array("f", [4.0]) * tokens
        yield embedding
        for layer in range(self._family.layers):
            yield from self._layer(f"blk.{layer}", attends=layer in self._family.attention)
        last = "token_embd_norm" if self._name == "lfm2" else "output_norm"
        yield _ones(f"{last}.weight", WIDTH)
        output = self._weights.matrix("output.weight", tokens, WIDTH)
        output.data[::WIDTH] = _biases(self._vocabulary)
        yield output

    def _layer(self, block: str, *, attends: bool) -> Iterator[Tensor]:
        yield _ones(f"{block}.attn_norm.weight", WIDTH)
        norms = {"gemma3": ("ffn_norm", "post_attention_norm", "post_ffw_norm")}
        norms |= {"lfm2": ("ffn_norm",)}
        for norm in norms.get(self._name, ("post_attention_norm",)):
            yield _ones(f"{block}.{norm}.weight", WIDTH)
        if attends:
            yield from self._attention(block)
        elif self._name == "lfm2":
            yield from self._convolution(block)
        else:
            yield from self._recurrence(block)
        if "expert_count" in self._family.values:
            yield from self._experts(block)
        else:
            yield from self._dense(f"{block}.ffn_{{}}.weight")

    def _attention(self, block: str) -> Iterator[Tensor]:
        is_gated = self._name.startswith("qwen3")  # the query's other half is a gate
        queries = HEAD * self._family.heads
        widths = {"q": queries * (1 + is_gated), "k": HEAD * self._family.kv_heads}
        for name, width in (widths | {"v": widths["k"]}).items():
            yield self._weights.matrix(f"{block}.attn_{name}.weight", width, WIDTH)
            if self._name == "gpt-oss":
                yield _zeros(f"{block}.attn_{name}.bias", width)
        yield self._writer(f"{block}.attn_output.weight", queries)
        if self._name == "gpt-oss":
            yield _zeros(f"{block}.attn_output.bias", WIDTH)
            yield _zeros(f"{block}.attn_sinks.weight", self._family.heads)
        else:
            yield _ones(f"{block}.attn_q_norm.weight", HEAD)
            yield _ones(f"{block}.attn_k_norm.weight", HEAD)

    def _convolution(self, block: str) -> Iterator[Tensor]:
        yield self._weights.matrix(f"{block}.shortconv.conv.weight", WIDTH, 3)
        yield self._weights.matrix(f"{block}.shortconv.in_proj.weight", 3 * WIDTH, WIDTH)
        yield self._writer(f"{block}.shortconv.out_proj.weight", WIDTH)

    def _recurrence(self, block: str) -> Iterator[Tensor]:
        inner, state, steps = (
            _RECURRENT[name] for name in ("inner_size", "state_size", "time_step_rank")
        )
        channels = 2 * state * _RECURRENT["group_count"] + inner
        yield self._weights.matrix(f"{block}.attn_qkv.weight", channels, WIDTH)
        yield self._weights.matrix(f"{block}.attn_gate.weight", inner, WIDTH)
        yield self._weights.matrix(
            f"{block}.ssm_conv1d.weight", channels, _RECURRENT["conv_kernel"]
        )
        yield _filled(f"{block}.ssm_dt.bias", steps, -2.0)
        yield _filled(f"{block}.ssm_a", steps, -1.0)
        if self._name == "qwen35":
            yield self._weights.matrix(f"{block}.ssm_beta.weight", steps, WIDTH)
            yield self._weights.matrix(f"{block}.ssm_alpha.weight", steps, WIDTH)
        else:
            yield self._weights.matrix(f"{block}.ssm_ba.weight", 2 * steps, WIDTH)
        yield _ones(f"{block}.ssm_norm.weight", inner // steps)
        yield self._writer(f"{block}.ssm_out.weight", inner)

    def _dense(self, name: str) -> Iterator[Tensor]:
        yield self._weights.matrix(name.format("gate"), FORWARD, WIDTH)
        yield self._weights.matrix(name.format("up"), FORWARD, WIDTH)
        yield self._writer(name.format("down"), FORWARD)

    def _experts(self, block: str) -> Iterator[Tensor]:
        widths = {"gate": FORWARD, "up": FORWARD, "down": WIDTH}
        yield self._weights.matrix(f"{block}.ffn_gate_inp.weight", EXPERTS, WIDTH)
        for each in zip(
            *(self._dense(f"{block}.ffn_{{}}_exps.weight") for _ in range(EXPERTS)), strict=True
        ):
            data = array("f")
            for tensor in each:
                data += tensor.data
            yield Tensor(each[0].name, each[0].rows, each[0].columns, data, planes=EXPERTS)
        if self._name == "gpt-oss":
            yield _zeros(f"{block}.ffn_gate_inp.bias", EXPERTS)
            for name, width in widths.items():
                data = array("f", bytes(4 * width * EXPERTS))
                yield Tensor(f"{block}.ffn_{name}_exps.bias", EXPERTS, width, data)
        else:
            yield self._weights.matrix(f"{block}.ffn_gate_inp_shexp.weight", 1, WIDTH)
            yield from self._dense(f"{block}.ffn_{{}}_shexp.weight")

    def _writer(self, name: str, columns: int) -> Tensor:
        """A matrix that writes to the residual stream."""
        return _silent_first_row(self._weights.matrix(name, WIDTH, columns))


def _filled(name: str, width: int, value: float) -> Tensor:
    return Tensor(name, 1, width, array("f", [value]) * width)


def _zeros(name: str, width: int) -> Tensor:
    return _filled(name, width, 0.0)
