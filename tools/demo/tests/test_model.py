"""The model file: the same each time, and as another reader of the format understands it."""

import pytest
from cacheproxy_demo.embedded import write_model
from cacheproxy_demo.embedded.model import default_template

pytestmark = pytest.mark.slow


def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(tmp_path):
    one, same, other, slow = (
        write_model(tmp_path / f"{number}.gguf", text="words and words", **more).read_bytes()
        for number, more in enumerate(({}, {}, {"seed": 2}, {"size": "slow"}))
    )
    assert one == same != other
    assert len(one) == len(other) < len(slow) / 5


def test_another_reader_of_the_format_finds_what_was_written(tmp_path):
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(write_model(tmp_path / "m.gguf", text="words and words", context=4096))

    assert reader.get_field("general.architecture").contents() == "llama"
    assert reader.get_field("llama.context_length").contents() == 4096
    assert reader.get_field("tokenizer.chat_template").contents() == default_template()
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    assert {"Ġwords", "Ġand", "<|im_end|>"} <= set(tokens)

    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert len(tensors) == 2 + 2 * 9 + 1
    assert list(tensors["token_embd.weight"].shape) == [64, len(tokens)]
    assert set(tensors["token_embd.weight"].data[:, 0]) == {4.0}
    assert set(tensors["blk.1.ffn_down.weight"].data[0]) == {0.0}
    assert float(tensors["blk.0.attn_q.weight"].data.std()) == pytest.approx(64**-0.5, rel=0.1)
