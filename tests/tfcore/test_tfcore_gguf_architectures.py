"""GGUF of architectures besides Llama's: a file says what transformers computes with the same numbers."""

from __future__ import annotations

import dataclasses
import os
import re

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf
import pytest
import torch
import transformers

from tfcore.io import from_pretrained
from tfcore.io.gguf import GGUFFile
from tfcore.io.gguf_architectures import ARCHITECTURES
from tfcore.testing import raise_weights

FIELDS = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "max_position_embeddings": 48,
    "rms_norm_eps": 0.013,
}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 333.0}}
WIDE = {"head_dim": 32}
MODELS = {  # classes of transformers, and fields; what the file says besides those that all have
    "qwen2": ("Qwen2", {**ROPE}, {}),
    "qwen3": ("Qwen3", {**ROPE, **WIDE}, {}),
    "gemma": ("Gemma", {**ROPE, **WIDE}, {}),
    "gemma2": (
        "Gemma2",
        {
            **ROPE,
            **WIDE,
            "sliding_window": 5,
            "query_pre_attn_scalar": 32,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 4.0,
        },
        {"attention.sliding_window": 5, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0},
    ),
    "gemma3": (
        "Gemma3",
        {
            **WIDE,
            "num_hidden_layers": 7,
            "sliding_window": 5,
            "query_pre_attn_scalar": 32,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 333.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            },
        },
        {"attention.sliding_window": 5, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
    ),
}


def theirs(name):
    family, changes, _ = MODELS[name]
    config = getattr(transformers, f"{family}{'Text' * (family == 'Gemma3')}Config")(**(FIELDS | changes))
    torch.manual_seed(5)
    eager = {"attn_implementation": "eager"}  # the others leave out the cap
    model = getattr(transformers, f"{family}ForCausalLM")._from_config(config, **eager).eval()
    return raise_weights(model, std=0.3)


def written(name, model, path, kind="F32", **changes):
    """Write the model as llama.cpp's converter does, and put the numbers that were written back."""
    config, number = model.config, gguf.GGMLQuantizationType[kind]
    rope = config.rope_parameters
    writer = gguf.GGUFWriter(path, name)
    own = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": rope.get("full_attention", rope)["rope_theta"],
        **MODELS[name][2],
        **changes,
    }
    if getattr(config, "head_dim", None):
        own |= {"attention.key_length": config.head_dim, "attention.value_length": config.head_dim}
    for field, value in own.items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{name}.{field}", value)
    short = {theirs: ours for ours, theirs in ARCHITECTURES[name].names.items()}
    for full, parameter in model.named_parameters():
        stem, _, ending = full.rpartition(".")
        layer = re.search(r"\.(\d+)\.", stem)
        place = short[re.sub(r"\.\d+\.", ".*.", stem)].replace("*", layer[1] if layer else "")
        used = number if parameter.ndim == 2 else gguf.GGMLQuantizationType.F32
        one = 1 if name.startswith("gemma") and stem.endswith("norm") else 0
        data = gguf.quants.quantize(parameter.detach().numpy() + one, used)
        writer.add_tensor(f"{place}.{ending}", data, raw_dtype=used)
        parameter.data.copy_(torch.from_numpy(gguf.quants.dequantize(data, used).copy()) - one)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def distance(model, ours):
    tokens = torch.randint(96, (3, 13), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(tokens).logits
        assert expected.abs().max() > 2, "weights are raised"
        return float((ours(tokens) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("kind", ["F32", pytest.param("Q8_0", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_it_computes_what_transformers_computes_with_the_same_numbers(name, kind, tmp_path):
    model = theirs(name)
    path = written(name, model, tmp_path / "model.gguf", kind)
    assert distance(model, from_pretrained(path)) < 5e-5


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gemma2", {"attention.sliding_window": 6}),
        ("gemma2", {"attn_logit_softcapping": 30.0}),
        ("gemma2", {"final_logit_softcapping": 30.0}),
        ("gemma3", {"attention.sliding_window": 6}),
        ("gemma3", {"rope.scaling.factor": 4.0}),
        ("qwen3", {"rope.freq_base": 10_000.0}),
        ("gemma", {"attention.layer_norm_rms_epsilon": 1e-6}),
    ],
    ids=str,
)
def test_a_field_that_is_another_shows(name, change, tmp_path):
    model = theirs(name)
    path = written(name, model, tmp_path / "model.gguf", **change)
    assert distance(model, from_pretrained(path)) > 1e-3


@pytest.mark.parametrize(
    ("name", "layout"), [("qwen2", {"in_pairs": True}), ("gemma", {"one_added": False})], ids=str
)
def test_a_layout_that_is_another_shows(name, layout, tmp_path):
    model = theirs(name)
    file = GGUFFile(written(name, model, tmp_path / "model.gguf"))
    file.architecture = dataclasses.replace(file.architecture, **layout)
    assert distance(model, from_pretrained(file)) > 1e-3


@pytest.mark.parametrize(
    ("layers", "scale"), [(46, 64 // 4), (26, 32)], ids=["27B: by head", "others: by its width"]
)
def test_the_largest_gemma_2_has_another_scale(layers, scale):
    json = {"num_hidden_layers": layers, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 32}
    assert ARCHITECTURES["gemma2"].more(json) == {"query_pre_attn_scalar": scale}


def test_what_is_not_computed_is_refused(tmp_path):
    path = written("qwen2", theirs("qwen2"), tmp_path / "m.gguf", **{"rope.scaling.type": "yarn"})
    with pytest.raises(
        ValueError, match=r"expected a qwen2 that tfcore computes .* rope.scaling.type is 'yarn'"
    ):
        from_pretrained(path)
