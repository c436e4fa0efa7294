"""GGUF: what a file says is what transformers computes with the same numbers, and other files are refused."""

from __future__ import annotations

import json
import os
import re

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf
import numpy as np
import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from tfcore.io import GGUFFile, from_pretrained
from tfcore.testing import raise_weights
from tfcore.tokenizer import SPLITS

KINDS = ("F32", "F16", "Q8_0", "Q4_0", "Q4_1")
TEXT = "The 2 models of 2024 read 135 words, didn't they?  Ünïcödé 漢字\n\n\tand\x00 more <|end|> here"


def llama(**changes):
    """A Llama of transformers whose every part shows in the logits. Rows are multiples of a block of 32."""
    fields = {
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 160,
        "max_position_embeddings": 48,
        "rms_norm_eps": 0.013,
        "rope_theta": 333.0,
        "tie_word_embeddings": False,
    }
    torch.manual_seed(5)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**(fields | changes))).eval()
    raise_weights(model, std=0.3)
    return model


def names_of(model):
    """llama.cpp's name of each of the model's parameters."""
    parts = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    names = {}
    for name, _ in model.named_parameters():
        theirs = re.sub(r"^model\.layers\.(\d+)", r"blk.\1", name)
        for ours, short in parts.items():
            theirs = theirs.replace(ours, short)
        names[name] = theirs
    return names


def in_pairs(x, heads):
    """The rows as llama.cpp turns them: neighbours, where transformers turns halves."""
    half = len(x) // heads // 2
    return x[
        [2 * half * head + i + part * half for head in range(heads) for i in range(half) for part in (0, 1)]
    ]


def written(model, path, kind="F32", tokenizer=None, template=None, leave_out=(), **fields):
    """Writes the model as llama.cpp does, with matrices of that kind, and puts the numbers it wrote back."""
    config, number = model.config, gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "llama")
    own = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": config.rope_parameters["rope_theta"],
        "rope.dimension_count": config.hidden_size // config.num_attention_heads,
        "vocab_size": config.vocab_size,
    } | fields
    for name, value in own.items():
        if name not in leave_out:
            add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
            add(f"llama.{name}", value)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, parameter in model.named_parameters():
        x = parameter.detach().numpy()
        turned = heads.get(name.split(".")[-2])
        x = in_pairs(x, turned) if turned else x
        used = number if x.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(x, used)
        if names_of(model)[name] not in leave_out:
            writer.add_tensor(names_of(model)[name], data, raw_dtype=used)
        numbers = torch.from_numpy(gguf.quants.dequantize(data, used).copy())
        if turned:  # undo in_pairs by where each row went
            order = in_pairs(torch.arange(len(numbers)), turned)
            numbers = torch.empty_like(numbers).index_copy_(0, order, numbers)
        parameter.data.copy_(numbers)
    for name, value in (tokenizer or {}).items():
        (writer.add_array if isinstance(value, list) else writer.add_string)(f"tokenizer.ggml.{name}", value)
    if template is not None:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits_differ_by(theirs, ours):
    tokens = torch.randint(theirs.config.vocab_size, (3, 13), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(tokens).logits
        assert expected.abs().max() > 3, "weights are raised"
        return (ours(tokens) - expected).abs().max() / expected.abs().max()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_computes_what_transformers_computes_with_the_same_numbers(kind, tmp_path):
    theirs = llama()
    path = written(theirs, tmp_path / "model.gguf", kind)
    assert logits_differ_by(theirs, from_pretrained(path)) < 5e-5


@pytest.mark.parametrize(
    "changes", [{"tie_word_embeddings": True}, {"attention_bias": True, "mlp_bias": True}], ids=str
)
def test_heads_and_biases_are_read(changes, tmp_path):
    theirs = llama(**changes)
    assert logits_differ_by(theirs, from_pretrained(written(theirs, tmp_path / "model.gguf"))) < 5e-5


def test_six_bits_are_read_as_the_format_says(tmp_path):
    """256 numbers in 210 bytes: low halves, high quarters, a scale for 16 of them, and one for all."""
    rng = np.random.default_rng(3)
    blocks = rng.integers(0, 256, (96, 210), dtype=np.uint8)
    blocks[:, 208:] = np.array([0.0123], dtype=np.float16).view(np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_uint32("llama.embedding_length", 256)
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_tensor("token_embd.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q6_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    low, high, scales = blocks[:, :128], blocks[:, 128:192], blocks[:, 192:208].view(np.int8)
    expected = np.empty((96, 256), dtype=np.float32)
    for i in range(256):
        half, place = divmod(i, 128)
        quarter, j = divmod(place, 32)
        nibble = low[:, 64 * half + 32 * (quarter % 2) + j] >> (4 * (quarter // 2)) & 15
        pair = high[:, 32 * half + j] >> (2 * quarter) & 3
        number = (nibble | pair << 4).astype(np.int32) - 32
        expected[:, i] = np.float32(np.float16(0.0123)) * scales[:, i // 16] * number
    found = GGUFFile(tmp_path / "one.gguf").read("model.embed_tokens.weight")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# --- the tokenizer


def trained(split="smollm"):
    """A byte-level BPE that has learned something, cut as the files named so are cut."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer = Tokenizer(models.BPE())
    cut = {"gpt-2": [], "smollm": [digits]}.get(split)
    if cut is None:  # by a pattern, and bytes without one
        cut = [pre_tokenizers.Split(Regex(SPLITS[{"llama-bpe": "gpt4"}.get(split, split)]), "isolated")]
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cut, level])
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|end|>"],
        initial_alphabet=level.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT, "135 2024 2024 20 the words here they read more"] * 3, trainer)
    return tokenizer


def tokenizer_fields(tokenizer, split="smollm"):
    content = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)
    return {
        "model": "gpt2",
        "pre": split,
        "tokens": tokens,
        "token_type": [3 if token == "<|end|>" else 1 for token in tokens],
        "merges": [" ".join(pair) for pair in content["merges"]],
    }


@pytest.mark.parametrize("split", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_the_tokenizer_cuts_as_the_one_that_was_written(split, tmp_path):
    theirs = trained(split)
    path = written(llama(), tmp_path / "model.gguf", tokenizer=tokenizer_fields(theirs, split))
    ours = GGUFFile(path).tokenizer
    assert ours.encode(TEXT).ids == theirs.encode(TEXT).ids
    assert ours.decode(ours.encode(TEXT).ids) == TEXT.replace("<|end|>", "")
    if split in ("smollm", "qwen2"):
        assert len(ours.encode("2024").ids) == 4


def test_a_token_that_a_text_may_spell_stays_whole(tmp_path):
    fields = tokenizer_fields(trained("qwen2"), "qwen2")
    fields = fields | {"tokens": [*fields["tokens"], "<think>"], "token_type": [*fields["token_type"], 4]}
    ours = GGUFFile(written(llama(), tmp_path / "m.gguf", tokenizer=fields)).tokenizer
    whole = len(fields["tokens"]) - 1
    ids = ours.encode("<think>the words<|end|>").ids
    assert ids[0] == whole
    assert ids.count(whole) == 1
    assert ours.decode(ids) == "<think>the words"


@pytest.mark.parametrize(("split", "count"), [("llama-bpe", 1), ("qwen2", 2)])
def test_a_word_that_is_a_token_is_taken_whole_where_the_model_was_trained_so(split, count, tmp_path):
    fields = tokenizer_fields(trained(split), split)
    fields |= {"tokens": [*fields["tokens"], "zq"], "token_type": [*fields["token_type"], 1]}
    ours = GGUFFile(written(llama(), tmp_path / "m.gguf", tokenizer=fields)).tokenizer
    assert len(ours.encode("zq").ids) == count


@pytest.mark.parametrize("field", ["tokens", "token_type", "merges"])
def test_a_tokenizer_that_is_not_whole_is_refused(field, tmp_path):
    fields = {name: value for name, value in tokenizer_fields(trained()).items() if name != field}
    path = written(llama(), tmp_path / "m.gguf", tokenizer=fields)
    with pytest.raises(ValueError, match=rf"got none of tokenizer\.ggml\.{field};"):
        _ = GGUFFile(path).tokenizer


def test_another_tokenizer_is_refused(tmp_path):
    for change in ({"model": "llama"}, {"pre": "gpt-4o"}):
        path = written(llama(), tmp_path / "m.gguf", tokenizer=tokenizer_fields(trained()) | change)
        with pytest.raises(ValueError, match=r"expected a byte-level BPE .* got (llama|gpt2) with"):
            _ = GGUFFile(path).tokenizer


def test_the_template_of_a_dialogue_is_read_where_there_is_one(tmp_path):
    template = "{% for message in messages %}{{ message['content'] }}<|end|>{% endfor %}"
    assert GGUFFile(written(llama(), tmp_path / "chat.gguf", template=template)).chat_template == template
    assert GGUFFile(written(llama(), tmp_path / "base.gguf")).chat_template is None


# --- what cannot be used


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"expert_count": 8}, "expert_count is 8"),
        ({"rope.scaling.type": "yarn"}, "rope.scaling.type is 'yarn'"),
        ({"rope.dimension_count": 8}, "rope.dimension_count is 8"),
        ({"attention.sliding_window": 4}, "attention.sliding_window is 4"),
        ({"leave_out": ["embedding_length"]}, "embedding_length is missing"),
        ({"leave_out": ["block_count"]}, "expected the field 'num_hidden_layers'"),
        ({"leave_out": ["blk.1.ffn_up.weight"]}, "missing: model.layers.1.mlp.up_proj.weight"),
    ],
    ids=str,
)
def test_what_tfcore_does_not_compute_is_refused(fields, says, tmp_path):
    path = written(llama(), tmp_path / "model.gguf", **fields)
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        from_pretrained(path)
    assert str(path) in str(refused.value)


def test_another_architecture_is_refused(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "bloom")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(
        ValueError, match=r"expected an architecture out of llama, .* in .*other.gguf, got bloom"
    ):
        from_pretrained(tmp_path / "other.gguf")


@pytest.mark.parametrize("length", [0, 3, 20, 500, 20_000, -100])
def test_a_file_that_was_cut_off_is_refused(length, tmp_path):
    whole = written(llama(), tmp_path / "model.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:length])
    with pytest.raises(ValueError, match=r"expected a whole GGUF file, got .*cut\.gguf"):
        from_pretrained(tmp_path / "cut.gguf")


def test_a_file_that_is_not_there_is_no_name_on_the_hub(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a folder or a name .*none\.gguf.*no such file"):
        from_pretrained(tmp_path / "none.gguf")
