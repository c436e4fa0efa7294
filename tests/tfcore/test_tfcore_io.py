"""Files in and out: every family and every published layout, there and back."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import warnings

import pytest
import tiny_checkpoints as tiny
import torch
import transformers
from saved_checkpoints import NAMES, rewrite, same_as, tensors
from tiny_checkpoints import TOLERANCE, batch, checkpoint, distance, our_output, their_output
from torch import nn

from tfcore.config import AttentionConfig
from tfcore.io import from_pretrained, save_pretrained
from tfcore.io.family import spelled_out
from tfcore.io.table import Row, link, no_key_bias, qkv_by_head, separate_qkv, transposed, unused_rows
from tfcore.layers import MultiHeadAttention
from tfcore.models import EncoderDecoder

# --- there and back


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_what_we_save(name, tmp_path):
    c = checkpoint(name)
    save_pretrained(c.ours, tmp_path)
    architecture = json.loads((tmp_path / "config.json").read_text())["architectures"][0]
    theirs = getattr(transformers, architecture).from_pretrained(tmp_path).eval()
    x = batch(c.kind)
    assert distance(their_output(theirs, c.kind, x), their_output(c.theirs, c.kind, x)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_saved_loaded_and_saved_again_is_the_same_file(name, tmp_path):
    ours = checkpoint(name).ours
    save_pretrained(ours, tmp_path / "a")
    again = from_pretrained(tmp_path / "a")
    save_pretrained(again, tmp_path / "b")
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert spelled_out(again.config) == spelled_out(ours.config)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_we_save_is_what_transformers_saved(name, tmp_path):
    c = checkpoint(name)
    save_pretrained(c.ours, tmp_path)
    ours, theirs = tensors(tmp_path), tensors(c.folder)
    prefix = "bert." if name == "bert-mlm" else ""
    for key, x in ours.items():
        y = theirs[prefix + key]
        skip = 2 if name == "bart" and "embed_positions" in key else 0  # rows that no token looks up
        if name == "roberta" and "position_embeddings" in key:  # it is written as a BERT, which has none
            y = y[2:]
        assert torch.equal(x[skip:], y[skip:]), key
        assert x.shape == y.shape
    left = {key.removeprefix(prefix) for key in theirs} - set(ours)
    assert all(key.startswith(("pooler.", "cls.", "model.encoder.")) for key in left)


# --- the layouts of published files

OLD = {
    "GPT-2 without a prefix, with masks and a copy of the embedding": (
        "gpt2",
        lambda source, folder: rewrite(
            source,
            folder,
            rename=lambda name: name.removeprefix("transformer."),
            shape={"h.0.attn.bias": (1, 1, 29, 29), "h.1.attn.masked_bias": ()},
            add={"lm_head.weight": tensors(source)["transformer.wte.weight"]},
            architectures=["GPT2LMHeadModel"],
            n_ctx=29,
            tie_word_embeddings=...,
            activation_function=...,
            torch_dtype="float16",
        ),
    ),
    "BERT with gamma and beta, a prefix, and the heads of pretraining": (
        "bert",
        lambda source, folder: rewrite(
            source,
            folder,
            rename=lambda name: (
                "bert."
                + re.sub(
                    "(LayerNorm)[.](weight|bias)",
                    lambda m: f"{m[1]}.{'gamma' if m[2] == 'weight' else 'beta'}",
                    name,
                )
            ),
            shape={"cls.predictions.bias": (53,), "cls.seq_relationship.weight": (2, 24)},
            architectures=["BertForPreTraining"],
            position_embedding_type="absolute",
        ),
    ),
    "Llama with its frequencies, and the rotation in two fields": (
        "llama",
        lambda source, folder: rewrite(
            source,
            folder,
            shape={f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": (2,) for layer in range(2)},
            rope_parameters=...,
            rope_theta=333.0,
            rope_scaling={("type" if k == "rope_type" else k): v for k, v in tiny.LLAMA_3_SCALING.items()},
            pretraining_tp=1,
            head_dim=...,
            attention_bias=...,
        ),
    ),
    "BLOOM without a prefix, with the names of its own fields": (
        "bloom",
        lambda source, folder: rewrite(
            source,
            folder,
            rename=lambda name: name.removeprefix("transformer."),
            hidden_size=...,
            n_embed=24,
            n_head=...,
            num_attention_heads=6,
            n_inner=None,
            offset_alibi=100,
        ),
    ),
    "T5 with copies of its embedding and a table it never used": (
        "t5",
        lambda source, folder: rewrite(
            source,
            folder,
            add={
                name: tensors(source)["shared.weight"]
                for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
            },
            shape={"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": (12, 3)},
            tie_word_embeddings=...,
            scale_decoder_outputs=...,
            feed_forward_proj=...,
        ),
    ),
    "T5 1.1 as published": (
        "t5-v1.1",
        lambda source, folder: rewrite(
            source, folder, tie_word_embeddings=False, scale_decoder_outputs=..., is_gated_act=...
        ),
    ),
    "T5 1.1 with its activation under the newer name": (
        "t5-v1.1",
        lambda source, folder: rewrite(source, folder, dense_act_fn="gelu_pytorch_tanh"),
    ),
    "BART with an embedding under another name": (
        "bart",
        lambda source, folder: rewrite(
            source,
            folder,
            rename=lambda name: name.replace("model.shared", "model.decoder.embed_tokens"),
            normalize_before=False,
            extra_pos_embeddings=2,
        ),
    ),
    "Marian with its sinusoids": (
        "marian",
        lambda source, folder: rewrite(
            source,
            folder,
            shape={f"model.{side}.embed_positions.weight": (29, 24) for side in ("encoder", "decoder")},
            static_position_embeddings=True,
            normalize_embedding=False,
        ),
    ),
    "Mamba with the first name of its embedding": (
        "mamba",
        lambda source, folder: rewrite(
            source, folder, rename=lambda name: name.replace("embeddings", "embedding"), rms_norm=True
        ),
    ),
    "RWKV without its optional sizes": (
        "rwkv",
        lambda source, folder: rewrite(source, folder, attention_hidden_size=..., rescale_every=0),
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("layout", OLD)
def test_published_layouts(layout, tmp_path):
    name, write = OLD[layout]
    assert same_as(name, from_pretrained(write(tiny.folder(name), tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("layout", [layout for layout, (name, _) in OLD.items() if name != "bert"])
def test_masks_frequencies_and_copies_are_no_loss(layout, tmp_path):
    name, write = OLD[layout]
    folder = write(tiny.folder(name), tmp_path)
    with warnings.catch_warnings(action="error"):
        save_pretrained(from_pretrained(folder), folder)
        assert same_as(name, from_pretrained(folder))


def test_mixtral_is_on_disk_as_the_hub_has_it():
    names = tensors(tiny.folder("mixtral"))
    assert "model.layers.1.block_sparse_moe.experts.4.w1.weight" in names
    assert names["model.layers.1.block_sparse_moe.experts.4.w2.weight"].shape == (24, 40)


def test_bart_without_a_bias_on_the_logits(tmp_path):
    source = tiny.folder("bart")
    c = checkpoint("bart")
    model = from_pretrained(rewrite(source, tmp_path, drop=["final_logits_bias"]))
    assert torch.equal(model.head.linear.bias, torch.zeros(53))
    x = batch(c.kind)
    shift = our_output(c.ours, c.kind, x) - our_output(model, c.kind, x)
    assert distance(shift, c.ours.head.linear.bias.expand_as(shift)) < TOLERANCE


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("name", ["gpt2", "t5", "whisper"])
def test_a_head_that_differs_is_not_tied_whatever_the_file_says(name, tmp_path):
    head = "proj_out.weight" if name == "whisper" else "lm_head.weight"
    source = rewrite(tiny.folder(name), tmp_path, add={head: torch.randn(53, 24)})
    ours = from_pretrained(source)
    assert torch.equal(ours.head.linear.weight, tensors(source)[head])
    x = batch(checkpoint(name).kind)
    theirs = their_output(tiny.reload(name, source), checkpoint(name).kind, x)
    assert distance(our_output(ours, checkpoint(name).kind, x), theirs) < TOLERANCE


def test_shards(tmp_path):
    c = checkpoint("mixtral")
    c.theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert same_as("mixtral", from_pretrained(tmp_path))


# --- what a loaded model is


def test_dtype_device_and_mode():
    model = from_pretrained(tiny.folder("gpt2"), dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert all(p.requires_grad and p.is_leaf and p.is_contiguous() for p in model.parameters())
    assert not model.training
    assert model(torch.tensor([[1, 2]])).dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"expected a floating-point type, got torch\.int8"):
        from_pretrained(tiny.folder("gpt2"), dtype=torch.int8)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["llama", "bloom", "t5"])
def test_on_a_gpu(name):
    c = checkpoint(name)
    model = from_pretrained(c.folder, device="cuda")
    assert {p.device.type for p in model.parameters()} == {"cuda"}
    x = batch(c.kind)
    moved = dataclasses.replace(x, tokens=x.tokens.cuda(), source=x.source.cuda())
    assert distance(our_output(model, c.kind, moved).cpu(), our_output(c.ours, c.kind, x)) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_unfilled_and_ties_hold(name):
    model = checkpoint(name).ours
    state = [x for x in model.state_dict().values()]
    assert not any(x.is_meta for x in state)
    assert not any(
        x.is_meta for m in model.modules() for x in vars(m).values() if isinstance(x, torch.Tensor)
    )
    config = getattr(model.config, "decoder", model.config)
    if isinstance(model, EncoderDecoder):
        assert model.decoder.embedding is model.encoder.embedding
    if hasattr(getattr(model, "head", None), "linear"):
        embedding = model.decoder.embedding if isinstance(model, EncoderDecoder) else model.stack.embedding
        assert (model.head.linear.weight is embedding.weight) == config.tied


def test_loading_draws_nothing_and_keeps_no_file_open(tmp_path):
    folder = rewrite(tiny.folder("gpt2"), tmp_path)
    before = torch.get_rng_state()
    model = from_pretrained(folder)
    assert torch.equal(torch.get_rng_state(), before)
    (folder / "model.safetensors").write_bytes(b"\0" * (folder / "model.safetensors").stat().st_size)
    assert same_as("gpt2", model)


@pytest.mark.slow
def test_loading_imports_neither_transformers_nor_the_hub_nor_torchs_compiler():
    loading = f"import sys, tfcore.io; tfcore.io.from_pretrained({str(tiny.folder('gpt2'))!r})"
    code = f"{loading}; assert not {{'transformers', 'huggingface_hub', 'torch._dynamo'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the table


def test_rows():
    assert Row("a.{layer}.b.*", "x.{layer}.y.*").names("a.3.b.bias", 1) == ["x.3.y.bias"]
    assert Row("w", "x.{expert}.w").names("w", 3) == ["x.0.w", "x.1.w", "x.2.w"]
    assert not Row("a.*", "x.*").matches("a.running_mean", nn.Identity())
    assert not Row("a.weight", "x", when=lambda layer: False).matches("a.weight", nn.Identity())
    with pytest.raises(ValueError, match="got none for weight"):
        link([Row("bias", "b")], nn.Linear(2, 3))


@pytest.mark.parametrize(
    "transform", [transposed, separate_qkv, qkv_by_head, unused_rows(2)], ids=["T", "q k v", "heads", "rows"]
)
def test_transforms_invert(transform):
    layer = MultiHeadAttention(AttentionConfig(d_model=24, num_heads=6))  # not 3: there are q, k and v
    x = layer.W_qkv.weight.detach()
    assert torch.equal(transform.from_disk(transform.to_disk(x, layer), layer), x)


def test_a_bias_of_the_keys_changes_nothing():
    layer = MultiHeadAttention(AttentionConfig(d_model=12, num_heads=3))
    x, bias = torch.randn(2, 5, 12), torch.randn(36)
    with torch.no_grad():
        layer.W_qkv.bias.copy_(bias)
        before = layer(x)
        layer.W_qkv.bias.copy_(no_key_bias.from_disk(no_key_bias.to_disk(bias, layer), layer))
        assert (layer.W_qkv.bias[12:24] == 0).all()
        torch.testing.assert_close(layer(x), before)
