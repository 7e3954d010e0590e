"""Write a tiny random model that vLLM, mlx-lm and transformers load.

    python benchmarks/hfmodel.py FOLDER --text FILE --template FILE [--seed 1]

A Qwen2 of one layer with a byte-level BPE learnt from the text. Needs tokenizers, safetensors and
numpy, which come with each of these servers: run it by the Python that has one. Nothing is
downloaded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WIDTH, LAYERS, HEADS, CONTEXT, MERGES = 64, 1, 2, 65_536, 4_096
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tokenizer(text: str) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=MERGES, show_progress=False, initial_alphabet=alphabet)
    made.train_from_iterator(text.splitlines(), trainer)
    made.add_special_tokens(list(SPECIAL))
    return made


def weights(tokens: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    half = WIDTH // 2
    shapes = {
        "self_attn.q_proj.weight": (WIDTH, WIDTH),
        "self_attn.q_proj.bias": (WIDTH,),
        "self_attn.k_proj.weight": (half, WIDTH),
        "self_attn.k_proj.bias": (half,),
        "self_attn.v_proj.weight": (half, WIDTH),
        "self_attn.v_proj.bias": (half,),
        "self_attn.o_proj.weight": (WIDTH, WIDTH),
        "mlp.gate_proj.weight": (2 * WIDTH, WIDTH),
        "mlp.up_proj.weight": (2 * WIDTH, WIDTH),
        "mlp.down_proj.weight": (WIDTH, 2 * WIDTH),
    }
    every = {"model.embed_tokens.weight": (tokens, WIDTH)}
    every |= {f"model.layers.{n}.{name}": s for n in range(LAYERS) for name, s in shapes.items()}
    made = {
        name: (random.standard_normal(shape) * 0.05).astype(np.float32)
        for name, shape in every.items()
    }
    norms = [f"layers.{n}.{w}" for n in range(LAYERS) for w in ("input", "post_attention")]
    names = ["model.norm.weight", *(f"model.{norm}_layernorm.weight" for norm in norms)]
    return made | {name: np.ones(WIDTH, np.float32) for name in names}


def write(folder: Path, text: str, template: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer(text)
    made.save(str(folder / "tokenizer.json"))
    end, _, stop = (made.token_to_id(name) for name in SPECIAL)
    tokens = (made.get_vocab_size() + 63) // 64 * 64
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": tokens,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS // 2,
        "head_dim": WIDTH // HEADS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "bos_token_id": end,
        "eos_token_id": stop,
        "pad_token_id": end,
        "torch_dtype": "float32",
    }
    generation = {"eos_token_id": [stop, end], "pad_token_id": end, "do_sample": False}
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    added = {
        str(made.token_to_id(name)): {"content": name, "special": True, **flags} for name in SPECIAL
    }
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "model_max_length": CONTEXT,
        "add_bos_token": False,
        "chat_template": template,
        "added_tokens_decoder": added,
    }
    files = {"config": config, "generation_config": generation, "tokenizer_config": described}
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value, indent=1))
    (folder / "chat_template.jinja").write_text(template)
    save_file(weights(tokens, seed), folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--text", type=Path, required=True)
    options.add_argument("--template", type=Path, required=True)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    write(given.folder, given.text.read_text(), given.template.read_text(), given.seed)


if __name__ == "__main__":
    main()
