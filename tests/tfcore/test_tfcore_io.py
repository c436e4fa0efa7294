"""Files in and out: every layout that published files have, the way back, and what errors say."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import warnings

import pytest
import tiny_checkpoints as tiny
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_checkpoints import TOLERANCE, batch, checkpoint, distance, our_output, their_output
from torch import nn

from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.io import from_pretrained, save_pretrained
from tfcore.io.family import families, family_of_model, spelled_out
from tfcore.io.table import Row, link, no_key_bias, qkv_by_head, separate_qkv, transposed, unused_rows
from tfcore.layers import MultiHeadAttention
from tfcore.mamba import Mamba, MambaConfig
from tfcore.models import Decoder, Encoder, EncoderDecoder, MemoryDecoder
from tfcore.models.presets import PRESETS, preset
from tfcore.quantize import quantize_weights
from tfcore.rwkv import RWKV, RWKVConfig

NAMES = list(tiny.SPECS)
FAMILIES = {family.name: family for family in families()}
MODELS = {"t5-v1.1": "t5", "bert-mlm": "bert", "llama-biased": "llama"}


def tensors(folder):
    return load_file(folder / "model.safetensors")


def rewrite(source, folder, *, rename=lambda name: name, add=(), drop=(), shape=(), **fields):
    """Write a checkpoint anew, with other names, more or fewer tensors, or other fields of config.json."""
    folder.mkdir(exist_ok=True)
    content = {rename(name): x for name, x in tensors(source).items() if name not in drop}
    content |= {name: torch.zeros(size) for name, size in dict(shape).items()}
    content |= {name: x.clone() for name, x in dict(add).items()}
    save_file(content, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**json.loads((source / "config.json").read_text()), **fields}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))
    return folder


def same_as(name, model):
    c = checkpoint(name)
    x = batch(c.kind)
    return torch.equal(our_output(model, c.kind, x), our_output(c.ours, c.kind, x))


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


@pytest.mark.parametrize("name", NAMES)
def test_saved_loaded_and_saved_again_is_the_same_file(name, tmp_path):
    ours = checkpoint(name).ours
    save_pretrained(ours, tmp_path / "a")
    again = from_pretrained(tmp_path / "a")
    save_pretrained(again, tmp_path / "b")
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert spelled_out(again.config) == spelled_out(ours.config)


@pytest.mark.parametrize("name", NAMES)
def test_what_we_save_is_what_transformers_saved(name, tmp_path):
    c = checkpoint(name)
    save_pretrained(c.ours, tmp_path)
    ours, theirs = tensors(tmp_path), tensors(c.folder)
    prefix = "bert." if name == "bert-mlm" else ""
    for key, x in ours.items():
        y = theirs[prefix + key]
        skip = 2 if name == "bart" and "embed_positions" in key else 0  # rows that no token looks up
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


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("layout", OLD)
def test_published_layouts(layout, tmp_path):
    name, write = OLD[layout]
    assert same_as(name, from_pretrained(write(tiny.folder(name), tmp_path)))


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
def test_importing_loads_neither_transformers_nor_the_hub():
    code = "import sys, tfcore.io; assert not {'transformers', 'huggingface_hub'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- fields of config.json

WITHOUT_EFFECT = {
    # what the file is, and what transformers returns
    "model_type", "architectures", "transformers_version", "dtype", "use_cache", "is_encoder_decoder",
    "output_router_logits", "id2label", "label2id",
    # special tokens, which generation and tokenizers know
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id",
    "begin_suppress_tokens", "suppress_tokens",
    # initialisation and training
    "initializer_range", "initializer_factor", "init_std", "attn_pdrop", "embd_pdrop", "attention_dropout",
    "attention_probs_dropout_prob", "activation_dropout", "classifier_dropout", "encoder_layerdrop",
    "decoder_layerdrop", "router_aux_loss_coef", "time_step_floor", "time_step_init_scheme", "time_step_max",
    "time_step_min", "time_step_scale", "rescale_prenorm_residual", "apply_spec_augment",
    "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob", "mask_time_length",
    "mask_time_min_masks", "mask_time_prob",
    # heads that are not loaded
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "classifier_proj_size", "use_weighted_layer_sum", "median_filter_width",
    # the same mathematics by another program
    "reorder_and_upcast_attn", "pretraining_tp", "slow_but_exact", "residual_in_fp32", "use_mambapy",
    "use_associative_scan", "rescale_every", "context_length",
    # follows from the class
    "is_decoder",
    # of Whisper's encoder
    "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers", "num_mel_bins", "max_source_positions",
}  # fmt: skip


class Recorder(dict):
    """A dictionary that notes what is read."""

    def __init__(self, content):
        super().__init__(content)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.read.add(name)
        return super().get(name, default)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_read_or_known(name):
    family = FAMILIES[MODELS.get(name, name)]
    fields = json.loads((tiny.folder(name) / "config.json").read_text())
    recorder = Recorder({**family.defaults, **fields})
    family.config_from(recorder)
    unread = set(fields) - recorder.read - set(family.only) - WITHOUT_EFFECT
    if family.model is Encoder:  # it has no head
        unread -= {"tie_word_embeddings"}
    assert not unread, f"{sorted(unread)}: read them, or say that they change nothing"


UNKNOWN = [
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("gpt2", {"scale_attn_weights": False}),
    ("gpt2", {"activation_function": "quick_gelu"}),
    ("gpt2", {"add_cross_attention": True}),
    ("gpt2", {"quantization_config": {"bits": 4}}),
    ("gpt2", {"n_embd": "24"}),
    ("gpt2", {"n_head": 5}),
    ("gpt2", {"n_inner": True}),
    ("bert", {"position_embedding_type": "relative_key"}),
    ("bert", {"is_decoder": True}),
    ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}}),
    ("llama", {"rope_parameters": {"rope_type": "linear"}}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": "4.0"}}),
    ("llama", {"hidden_act": "xielu"}),
    ("mistral", {"layer_types": ["full_attention", "sliding_attention"]}),
    ("mixtral", {"hidden_act": "gelu"}),
    ("bloom", {"apply_residual_connection_post_layernorm": True}),
    ("t5", {"feed_forward_proj": "gated-tanh"}),
    ("t5", {"dense_act_fn": "gelu"}),
    ("t5", {"is_gated_act": True}),
    ("t5-v1.1", {"dense_act_fn": "gelu"}),
    ("t5-v1.1", {"is_gated_act": False}),
    ("t5-v1.1", {"feed_forward_proj": ..., "dense_act_fn": "gelu_new"}),
    ("t5", {"is_encoder_decoder": False}),
    ("t5", {"relative_attention_max_distance": 5}),
    ("bart", {"normalize_before": True}),
    ("bart", {"is_encoder_decoder": False}),
    ("marian", {"is_encoder_decoder": False}),
    ("marian", {"decoder_vocab_size": 60}),
    ("marian", {"share_encoder_decoder_embeddings": False}),
    ("whisper", {"scale_embedding": True}),
    ("mamba", {"hidden_act": "relu"}),
    ("mamba", {"intermediate_size": 100}),
]


@pytest.mark.parametrize(("name", "fields"), UNKNOWN, ids=[f"{name}: {next(iter(f))}" for name, f in UNKNOWN])
def test_what_we_do_not_compute_is_refused(name, fields, tmp_path):
    folder = rewrite(tiny.folder(name), tmp_path, **fields)
    with pytest.raises(ValueError, match="expected") as error:
        from_pretrained(folder)
    assert str(folder / "config.json") in str(error.value)
    value = next(v for v in fields.values() if v is not ...)
    words = [v for v in value.values()] if isinstance(value, dict) else [value]
    assert any(str(word) in str(error.value) for word in words)


def test_a_field_that_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match="expected the field 'n_head'"):
        from_pretrained(rewrite(tiny.folder("gpt2"), tmp_path, n_head=...))


@pytest.mark.parametrize(
    "fields", [{"architectures": ["GPTJForCausalLM"]}, {"architectures": ..., "model_type": "x"}]
)
def test_an_unknown_family_is_refused_with_a_list_of_those_known(fields, tmp_path):
    with pytest.raises(ValueError, match=r"expected an architecture out of .*LlamaForCausalLM"):
        from_pretrained(rewrite(tiny.folder("gpt2"), tmp_path, **fields))


def test_a_file_may_name_its_family_by_model_type_alone(tmp_path):
    assert same_as("gpt2", from_pretrained(rewrite(tiny.folder("gpt2"), tmp_path, architectures=...)))


# --- tensors that do not fit, and files that are broken


def test_all_that_does_not_fit_is_named_at_once(tmp_path):
    folder = rewrite(
        tiny.folder("gpt2"),
        tmp_path,
        drop=["transformer.ln_f.bias", "transformer.h.1.mlp.c_fc.weight"],
        shape={"transformer.h.2.ln_1.bias": (24,), "transformer.wpe.weight": (28, 24)},
    )
    with pytest.raises(ValueError, match="got 4 in") as error:
        from_pretrained(folder)
    for line in (
        "missing: transformer.ln_f.bias (24,)",
        "missing: transformer.h.1.mlp.c_fc.weight (24, 40)",
        "unexpected: transformer.h.2.ln_1.bias (24,)",
        "misshapen: transformer.wpe.weight (28, 24), expected (29, 24)",
    ):
        assert line in str(error.value)


def test_one_tensor_under_two_names_is_unexpected_and_a_copy_that_differs_too(tmp_path):
    twice = rewrite(tiny.folder("gpt2"), tmp_path / "a", shape={"wpe.weight": (29, 24)})
    with pytest.raises(ValueError, match=r"unexpected: (transformer[.])?wpe.weight"):
        from_pretrained(twice)
    other = rewrite(tiny.folder("t5"), tmp_path / "b", shape={"encoder.embed_tokens.weight": (53, 24)})
    with pytest.raises(ValueError, match=r"different: encoder.embed_tokens.weight.* copy of shared.weight"):
        from_pretrained(other)


def test_a_head_that_is_not_tied_must_be_there(tmp_path):
    folder = rewrite(tiny.folder("llama"), tmp_path, drop=["lm_head.weight"])
    with pytest.raises(ValueError, match=r"missing: lm_head.weight \(53, 24\)"):
        from_pretrained(folder)


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
def test_truncated_weights(keep, tmp_path):
    folder = rewrite(tiny.folder("gpt2"), tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="expected a whole safetensors file") as error:
        from_pretrained(folder)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("text", ['{"n_embd": 24,', "[1, 2]", "", "\ufeff{}"])
def test_wrong_json(text, tmp_path):
    folder = rewrite(tiny.folder("gpt2"), tmp_path)
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected .*json.* in .*config\.json"):
        from_pretrained(folder)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected config\.json in"):
        from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((tiny.folder("gpt2") / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"expected model\.safetensors or .*index\.json.*neither"):
        from_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(FileNotFoundError, match=r"got pytorch_model\.bin; only safetensors are read"):
        from_pretrained(tmp_path)


def test_shards_that_are_lost_or_wrong(tmp_path):
    checkpoint("gpt2").theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    index = tmp_path / "model.safetensors.index.json"
    listed = json.loads(index.read_text())
    shard = listed["weight_map"]["transformer.wte.weight"]

    other = {**listed["weight_map"], "transformer.lost": shard}
    index.write_text(json.dumps({"weight_map": other}))
    with pytest.raises(ValueError, match=r"expected transformer\.lost in .*" + re.escape(shard)):
        from_pretrained(tmp_path)

    for wrong in ({}, {"weight_map": {"a": "../model.safetensors"}}, {"weight_map": {"a": 3}}):
        index.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match="expected a weight_map"):
            from_pretrained(tmp_path)

    index.write_text(json.dumps(listed))
    (tmp_path / shard).unlink()
    with pytest.raises(FileNotFoundError, match=r"expected all files that .* got no .*" + re.escape(shard)):
        from_pretrained(tmp_path)


def test_the_hub(tmp_path, monkeypatch):
    import huggingface_hub

    asked = {}

    def snapshot_download(name, allow_patterns):
        asked.update(name=name, patterns=allow_patterns)
        return str(tiny.folder("gpt2"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.chdir(tmp_path)
    assert same_as("gpt2", from_pretrained("openai-community/gpt2"))
    assert asked["name"] == "openai-community/gpt2"
    assert all(pattern.endswith((".json", ".safetensors")) for pattern in asked["patterns"])


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConnectionError, match=r"no such folder.*huggingface\.co failed") as error:
        from_pretrained("nobody/nothing")
    assert "local folder that holds config.json and model.safetensors" in str(error.value)
    for name in ("./nothing", "/no/such/folder", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="expected"):
            from_pretrained(name)


@pytest.mark.parametrize("name", ["", None, 7])
def test_no_name_is_no_folder(name, monkeypatch):
    monkeypatch.chdir(tiny.folder("gpt2"))
    with pytest.raises(ValueError, match=rf"expected a folder or a name .*, got {name!r}; give '\.'"):
        from_pretrained(name)
    assert same_as("gpt2", from_pretrained("."))


# --- saving


def test_a_failure_leaves_the_old_files_and_nothing_else(tmp_path, monkeypatch):
    model = checkpoint("gpt2").ours
    save_pretrained(model, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full_disk(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("tfcore.io.pretrained.save_file", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_pretrained(model, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_saving_over_the_files_it_was_loaded_from(tmp_path):
    folder = rewrite(tiny.folder("gpt2"), tmp_path)
    model = from_pretrained(folder)
    save_pretrained(model, folder)
    assert same_as("gpt2", from_pretrained(folder))


LEFT_OUT = {  # some of the weights of which a warning tells
    "bert": "pooler.dense.weight",
    "bert-mlm": "cls.predictions.bias",
    "whisper": "model.encoder.conv1.weight",
}


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_left_out_are_named(name):
    with warnings.catch_warnings(record=True, action="always") as said:
        from_pretrained(tiny.folder(name))
    assert [warning.filename for warning in said] == [__file__] * (name in LEFT_OUT)
    for warning in said:
        assert warning.category is UserWarning
        assert LEFT_OUT[name] in str(warning.message)
        assert "position_ids" not in str(warning.message)


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_saving_does_not_destroy_what_was_left_out(name, shards, tmp_path):
    if shards:
        checkpoint(name).theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    else:
        shutil.copytree(tiny.folder(name), tmp_path, dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"expected a folder .* save to another folder") as error:
        save_pretrained(checkpoint(name).ours, tmp_path)
    assert LEFT_OUT[name] in str(error.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_larger_model_is_not_replaced_and_a_broken_file_is(tmp_path):
    source, name = tiny.folder("gpt2"), "transformer.h.2.ln_1.bias"
    larger = rewrite(source, tmp_path / "a", shape={name: (24,)})
    with pytest.raises(ValueError, match=rf"got 1 in .*{name}.* save to another folder"):
        save_pretrained(checkpoint("gpt2").ours, larger)
    broken = rewrite(source, tmp_path / "b")
    (broken / "model.safetensors").write_bytes(b"half")
    save_pretrained(checkpoint("gpt2").ours, broken)
    assert same_as("gpt2", from_pretrained(broken))


def test_half_precision_is_saved_as_such(tmp_path):
    save_pretrained(from_pretrained(tiny.folder("llama"), dtype=torch.bfloat16), tmp_path)
    assert {x.dtype for x in tensors(tmp_path).values()} == {torch.bfloat16}
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path).dtype == torch.bfloat16


BLOCK = BlockConfig(AttentionConfig(d_model=12, num_heads=3), d_ff=20)


def test_a_model_that_no_family_describes_is_refused(tmp_path):
    odd = ModelConfig(50, 2, BLOCK, PositionConfig("shaw"))
    with pytest.raises(ValueError, match="that none") as error:
        save_pretrained(Decoder(odd), tmp_path / "new")
    for line in ("gpt2: positions.kind 'shaw' would become 'learned'", "llama: ", "bloom: "):
        assert line in str(error.value)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="got one of type Linear that none does"):
        save_pretrained(nn.Linear(2, 2), tmp_path / "new")


def test_defaults_spelled_out_are_the_same_family(tmp_path):
    attention = AttentionConfig(d_model=12, num_heads=3, num_kv_heads=3, d_head=4, scale=4**-0.5)
    block = BlockConfig(attention, d_ff=20, activation="gelu_tanh", dropout=0.25)
    config = ModelConfig(50, 2, block, PositionConfig("learned", 9), final_norm=True)
    save_pretrained(Decoder(config), tmp_path)
    assert from_pretrained(tmp_path).config.block.dropout == 0.25


def test_fields_that_say_nothing_are_no_hindrance(tmp_path):
    """The head of an encoder-decoder is described by its decoder, and buckets are T5's alone."""
    block = dataclasses.replace(BLOCK, norm_place="post", top_k=1)
    positions = PositionConfig("learned", 9, base=500.0, num_buckets=8, max_distance=7)
    decoder = ModelConfig(50, 2, block, positions, embedding_norm=True, logit_bias=True)
    encoder = dataclasses.replace(decoder, tied=False, logit_bias=False, logit_scale=0.5)
    model = EncoderDecoder(EncoderDecoderConfig(encoder, decoder)).eval()
    save_pretrained(model, tmp_path)
    source, target = torch.tensor([[7, 1, 4]]), torch.tensor([[0, 3]])
    assert torch.equal(from_pretrained(tmp_path)(source, target), model(source, target))


def test_a_quantized_model_is_not_saved_in_part(tmp_path):
    small = quantize_weights(Decoder(preset("gpt2-tiny")))
    with pytest.raises(ValueError, match="parameters alone, got the buffers"):
        save_pretrained(small, tmp_path / "new")
    assert not (tmp_path / "new").exists()


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


# --- presets

PUBLISHED = {  # parameters, and what is counted differently
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240 - (768 * 768 + 768),  # with the pooler
    "bert-large": 335_141_888 - (1024 * 1024 + 1024),
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "bloom-560m": 559_214_592,
    "bloom-1b7": 1_722_408_960,
    "bloom-7b1": 7_069_016_064,
    "bloom": 176_247_271_424,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-v1.1-small": 76_961_152,
    "t5-v1.1-base": 247_577_856,
    "bart-base": 139_420_416 - 4 * 768 + 50_265,  # with 2 unused positions a side, without the logits' bias
    "bart-large": 406_291_456 - 4 * 1024 + 50_265,
    "marian-en-de": 74_410_496 - 2 * 512 * 512 + 58_101,  # with its sinusoids, without the logits' bias
    "whisper-tiny-decoder": 37_760_640 - 8_208_384 + 4 * 2 * 384,  # less the encoder, with biases of keys
    "rwkv-4-169m": 169_342_464,
    "rwkv-4-430m": 430_397_440,
    "mamba-130m": 129_135_360,
    "mamba-370m": 371_516_416,
}


def model_class(name):
    """The class of a preset's model: that of its configuration, but for one half alone."""
    alone = {"bert": Encoder, "whisper": MemoryDecoder}
    of_config = {
        ModelConfig: Decoder,
        EncoderDecoderConfig: EncoderDecoder,
        RWKVConfig: RWKV,
        MambaConfig: Mamba,
    }
    return alone.get(name.split("-")[0], of_config[type(preset(name))])


def count(name):
    with torch.device("meta"):
        return sum(p.numel() for p in model_class(name)(preset(name)).parameters())


def family_of(name):
    model = model_class(name).__new__(model_class(name))
    nn.Module.__init__(model)
    model.config = preset(name)  # all that the search looks at
    return family_of_model(model)[0]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if n > 1e9 else ()) for name, n in PUBLISHED.items()],
)
def test_presets_have_the_published_number_of_parameters(name):
    assert count(name) == PUBLISHED[name]


def test_presets_and_families_cover_each_other():
    for name in PRESETS:
        assert f"{name}-".startswith(f"{family_of(name).name}-")
    tiny_ones = {name.removesuffix("-tiny") for name in PRESETS if name.endswith("-tiny")}
    assert set(FAMILIES) == tiny_ones | {"whisper"}


@pytest.mark.parametrize("name", [name for name in PRESETS if name.endswith("-tiny")])
def test_tiny_presets_are_for_a_laptop(name):
    assert count(name) < 300_000


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gpt2", "GPT2Config"),
        ("bert-base", "BertConfig"),
        ("t5-small", "T5Config"),
        ("bart-large", "BartConfig"),
    ],
)
def test_presets_are_what_transformers_takes_for_default(name, config):
    theirs = family_of(name).config(getattr(transformers, config)().to_dict())
    assert spelled_out(theirs) == spelled_out(preset(name))


def test_an_unknown_preset():
    with pytest.raises(ValueError, match=r"expected a name out of gpt2, .*got 'gpt-2'"):
        preset("gpt-2")
