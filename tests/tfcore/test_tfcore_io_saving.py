"""Saving: a failure leaves the old files, nothing is lost unnoticed, some models are refused."""

from __future__ import annotations

import dataclasses
import shutil
import warnings

import pytest
import tiny_checkpoints as tiny
import torch
import transformers
from safetensors import safe_open
from saved_checkpoints import NAMES, rewrite, same_as, tensors
from tiny_checkpoints import checkpoint
from torch import nn

from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.io import from_pretrained, save_pretrained
from tfcore.models import Decoder, EncoderDecoder
from tfcore.models.presets import preset
from tfcore.quantize import quantize_weights


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
    "roberta": "pooler.dense.weight",
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
