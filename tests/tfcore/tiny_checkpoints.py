"""Checkpoints that transformers wrote, one of each family: small, and with weights at which every part shows.

Sizes differ pairwise, and so do the constants of norms and rotations from all defaults: a field that is not
read shows in the logits.
"""

from __future__ import annotations

import copy
import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import family_specs
import torch

from tfcore.io import from_pretrained
from tfcore.testing import raise_weights

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

B, T, T_SOURCE, VOCAB, D_MODEL, D_FF, LAYERS = 3, 13, 7, 53, 24, 40, 2
TOLERANCE = 5e-5  # of the largest logit, or of 1 where all are smaller
ROOT = tempfile.TemporaryDirectory()

LLAMA: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": D_FF,
    "max_position_embeddings": 64,
    "rms_norm_eps": 0.013,
    "rope_theta": 333.0,
}
LLAMA_3_SCALING = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 3.0,
    "original_max_position_embeddings": 16,
}
LONG: dict[str, Any] = {**LLAMA, "head_dim": 10}  # wide enough for fast, slow and middling pairs
BERT: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": D_FF,
    "max_position_embeddings": 29,
    "type_vocab_size": 2,
    "layer_norm_eps": 0.013,
}
T5: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "d_kv": 10,
    "d_ff": D_FF,
    "num_layers": LAYERS,
    "num_decoder_layers": 3,
    "num_heads": 3,
    "relative_attention_num_buckets": 12,
    "relative_attention_max_distance": 9,
    "layer_norm_epsilon": 0.013,
}
BART: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "encoder_layers": LAYERS,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": D_FF,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 29,
    "pad_token_id": VOCAB - 1,
}


@dataclass(frozen=True)
class Spec:
    """How to make a checkpoint: classes of transformers, fields of the configuration, and what runs it."""

    kind: str  # decoder, recurrent, encoder, seq2seq or memory
    model: str
    config: str
    fields: dict[str, Any]
    seed: int = 0  # one under which greedy generation does not repeat one token
    attention: str | None = None  # how transformers computes it, where its usual way leaves something out


SPECS = {
    "gpt2": Spec(
        "decoder",
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": VOCAB,
            "n_embd": D_MODEL,
            "n_layer": LAYERS,
            "n_head": 4,
            "n_inner": D_FF,
            "n_positions": 29,
            "layer_norm_epsilon": 0.013,
        },
        seed=16,
    ),
    "llama": Spec("decoder", "LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_scaling": LLAMA_3_SCALING}),
    "llama-biased": Spec(
        "decoder",
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **LLAMA,
            "head_dim": 10,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "rope_scaling": {"rope_type": "linear", "factor": 2.5},
        },
    ),
    "llama-yarn": Spec(
        "decoder",
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **LONG,
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 11,
                "beta_fast": 2.0,
                "beta_slow": 0.1,
            },
        },
    ),
    "llama-dynamic": Spec(
        "decoder",
        "LlamaForCausalLM",
        "LlamaConfig",
        {**LONG, "max_position_embeddings": 9, "rope_scaling": {"rope_type": "dynamic", "factor": 3.0}},
    ),
    "llama-longrope": Spec(
        "decoder",
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **LONG,
            "rope_scaling": {
                "rope_type": "longrope",
                "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0],
                "long_factor": [1.3, 2.0, 3.5, 5.0, 7.0],
                "original_max_position_embeddings": 9,
            },
        },
    ),
    "mistral": Spec("decoder", "MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": 5}),
    "mixtral": Spec(
        "decoder",
        "MixtralForCausalLM",
        "MixtralConfig",
        {**LLAMA, "num_local_experts": 5, "num_experts_per_tok": 3},
    ),
    "bloom": Spec(
        "decoder",
        "BloomForCausalLM",
        "BloomConfig",
        {
            "vocab_size": VOCAB,
            "hidden_size": D_MODEL,
            "n_layer": LAYERS,
            "n_head": 6,
            "layer_norm_epsilon": 0.013,
        },
    ),
    "rwkv": Spec(
        "recurrent",
        "RwkvForCausalLM",
        "RwkvConfig",
        {
            "vocab_size": VOCAB,
            "hidden_size": D_MODEL,
            "num_hidden_layers": LAYERS,
            "intermediate_size": D_FF,
            "layer_norm_epsilon": 0.013,
        },
    ),
    "mamba": Spec(
        "recurrent",
        "MambaForCausalLM",
        "MambaConfig",
        {
            "vocab_size": VOCAB,
            "hidden_size": D_MODEL,
            "num_hidden_layers": LAYERS,
            "state_size": 5,
            "conv_kernel": 3,
            "expand": 3,
            "time_step_rank": 7,
            "use_bias": True,
            "layer_norm_epsilon": 0.013,
        },
    ),
    "mamba2": Spec(
        "recurrent",
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {
            "vocab_size": VOCAB,
            "hidden_size": D_MODEL,
            "num_hidden_layers": LAYERS,
            "state_size": 5,
            "conv_kernel": 3,
            "expand": 3,
            "head_dim": 12,
            "num_heads": 6,
            "n_groups": 2,
            "chunk_size": 4,
            "time_step_limit": (0.02, 0.3),
            "use_bias": True,
            "layer_norm_epsilon": 0.013,
            "tie_word_embeddings": True,
        },
    ),
    "mamba2-untied": Spec(
        "recurrent",
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {
            "vocab_size": VOCAB,
            "hidden_size": D_MODEL,
            "num_hidden_layers": LAYERS,
            "state_size": 5,
            "conv_kernel": 1,
            "head_dim": 16,
            "num_heads": 3,
            "n_groups": 1,
            "use_conv_bias": False,
        },
    ),
    "bert": Spec("encoder", "BertModel", "BertConfig", BERT),
    "bert-mlm": Spec("encoder", "BertForMaskedLM", "BertConfig", {**BERT, "hidden_act": "gelu_new"}),
    "t5": Spec("seq2seq", "T5ForConditionalGeneration", "T5Config", T5, seed=7),
    "t5-v1.1": Spec(
        "seq2seq", "T5ForConditionalGeneration", "T5Config", {**T5, "feed_forward_proj": "gated-gelu"}, seed=8
    ),
    "bart": Spec("seq2seq", "BartForConditionalGeneration", "BartConfig", BART),
    "marian": Spec(
        "seq2seq",
        "MarianMTModel",
        "MarianConfig",
        {
            **BART,
            "scale_embedding": True,
            "activation_function": "swish",
            "decoder_start_token_id": VOCAB - 1,
        },
    ),
    "whisper": Spec(
        "memory",
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            "vocab_size": VOCAB,
            "d_model": D_MODEL,
            "encoder_layers": 1,
            "decoder_layers": LAYERS,
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 6,
            "encoder_ffn_dim": 36,
            "decoder_ffn_dim": D_FF,
            "num_mel_bins": 8,
            "max_source_positions": T_SOURCE,
            "max_target_positions": 29,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
    ),
}


SPECS |= {name: Spec(**{"kind": "decoder", **row}) for name, row in family_specs.ROWS.items()}


@dataclass(frozen=True)
class Checkpoint:
    """One folder, and what transformers and tfcore read from it."""

    name: str
    folder: Path
    theirs: Any
    ours: Any

    @property
    def kind(self) -> str:
        return SPECS[self.name].kind


@functools.cache
def folder(name: str) -> Path:
    """Let transformers write a checkpoint with raised weights."""
    spec = SPECS[name]
    torch.manual_seed(0)
    fields = copy.deepcopy(spec.fields)  # transformers writes into dictionaries that it is given
    model = getattr(transformers, spec.model)(getattr(transformers, spec.config)(**fields))
    raise_weights(model, seed=spec.seed)
    if name == "t5-v1.1":  # transformers ties what the published files hold apart
        model.lm_head.weight = torch.nn.Parameter(0.3 * torch.randn(VOCAB, D_MODEL))
        model.config.scale_decoder_outputs = False
    for key, x in model.named_buffers():
        if key.endswith("e_score_correction_bias"):
            x.copy_(0.3 * torch.randn(x.shape))
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias = torch.randn(1, VOCAB)
    path = Path(ROOT.name) / name
    model.save_pretrained(path)
    return path


@functools.cache
def checkpoint(name: str) -> Checkpoint:
    """Let transformers and tfcore read a checkpoint."""
    path = folder(name)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # heads and an encoder are left out
        ours = from_pretrained(path)
    return Checkpoint(name, path, reload(name, path), ours)


def reload(name: str, path: Path) -> Any:
    """Let transformers read a folder."""
    spec = SPECS[name]
    model = getattr(transformers, spec.model)
    return model.from_pretrained(path, attn_implementation=spec.attention).eval()


@dataclass(frozen=True)
class Batch:
    """What goes in; padding is True at real tokens."""

    tokens: torch.Tensor
    source: torch.Tensor
    states: torch.Tensor
    padding: torch.Tensor | None = None
    source_padding: torch.Tensor | None = None


def batch(kind: str, padded: bool = False) -> Batch:
    """Draw tokens, a source and a memory; padding is left of a decoder's tokens and right of all others."""
    g = torch.Generator().manual_seed(1)
    tokens = torch.randint(VOCAB - 1, (B, T), generator=g)
    source = torch.randint(VOCAB - 1, (B, T_SOURCE), generator=g)
    states = torch.randn(B, T_SOURCE, D_MODEL, generator=g)
    if not padded:
        return Batch(tokens, source, states)
    lengths = torch.tensor([[T], [T - 4], [2]])
    real = torch.arange(T) < lengths
    real = real.flip(1) if kind == "decoder" else real
    source_real = torch.arange(T_SOURCE) < torch.tensor([[3], [T_SOURCE], [5]])
    return Batch(tokens, source, states, real if kind in ("decoder", "encoder") else None, source_real)


@torch.no_grad()
def their_output(model: Any, kind: str, x: Batch) -> torch.Tensor:
    """Run transformers on the whole batch at once: logits, or an encoder's last hidden states."""
    mask = None if x.padding is None else x.padding.long()
    if kind == "encoder":
        extra = {}
        if model.config.model_type == "roberta":  # it takes each token with the padding's id for padding
            extra["position_ids"] = (torch.arange(x.tokens.shape[1]) + model.config.pad_token_id + 1)[None]
        return model.base_model(x.tokens, attention_mask=mask, **extra).last_hidden_state
    if kind == "seq2seq":
        source_mask = None if x.source_padding is None else x.source_padding.long()
        return model(input_ids=x.source, attention_mask=source_mask, decoder_input_ids=x.tokens).logits
    if kind == "memory":
        name = "input_ids" if "CausalLM" in type(model).__name__ else "decoder_input_ids"
        states = x.states if name == "input_ids" else (x.states,)
        return model(**{name: x.tokens}, encoder_outputs=states, use_cache=False).logits
    extra = {} if mask is None else {"attention_mask": mask}
    if mask is not None and model.config.model_type != "bloom":
        extra["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    return model(x.tokens, use_cache=False, **extra).logits


@torch.no_grad()
def our_output(model: Any, kind: str, x: Batch) -> torch.Tensor:
    """Run tfcore on the whole batch at once."""
    if kind == "recurrent":
        return model(x.tokens)
    if kind == "seq2seq":
        return model(x.source, x.tokens, source_padding=x.source_padding)
    if kind == "memory":
        return model(x.tokens, x.states)
    return model(x.tokens, padding=x.padding)


@torch.no_grad()
def their_output_in_chunks(name: str, x: Batch, chunks: list[int]) -> torch.Tensor:
    """Run transformers on one piece after the other, through its cache: a decoder that read nothing else."""
    model, cache, outputs, end = reload(name, folder(name)), transformers.DynamicCache(), [], 0
    mask = torch.ones_like(x.tokens) if x.padding is None else x.padding.long()
    places = (mask.cumsum(1) - 1).clamp(min=0)
    for piece, place in zip(x.tokens.split(chunks, dim=1), places.split(chunks, dim=1), strict=True):
        end += piece.shape[1]
        step = model(piece, position_ids=place, attention_mask=mask[:, :end], past_key_values=cache)
        outputs.append(step.logits)
    return torch.cat(outputs, dim=1)


@torch.no_grad()
def our_output_in_chunks(
    model: Any, kind: str, x: Batch, chunks: list[int], cache_kind: str | None
) -> torch.Tensor:
    """Run tfcore on one piece after the other, through a cache."""
    step: Callable[..., torch.Tensor] = model
    if kind == "seq2seq":
        memory = model.memory(model.encode(x.source, x.source_padding))
        step = functools.partial(model.decode, memory=memory, source_padding=x.source_padding)
    elif kind == "memory":
        step = functools.partial(model, memory=model.memory(x.states))
    extra = {} if kind == "recurrent" else {"kind": cache_kind}
    cache = model.new_cache(len(x.tokens), x.tokens.shape[1], **extra)
    outputs = []
    pieces = x.tokens.split(chunks, dim=1)
    masks = [None] * len(chunks) if x.padding is None else x.padding.split(chunks, dim=1)
    for piece, mask in zip(pieces, masks, strict=True):
        extra = {} if mask is None else {"padding": mask}
        outputs.append(step(piece, cache=cache, **extra))
    return torch.cat(outputs, dim=1)


def distance(one: torch.Tensor, other: torch.Tensor, where: torch.Tensor | None = None) -> float:
    """Measure the largest difference, as a part of the largest entry (or of 1); NaN is infinitely far."""
    if where is not None:
        one, other = one[where], other[where]
    assert one.shape == other.shape
    gap = (one - other).detach().abs().max() / other.detach().abs().max().clamp(min=1)
    return float(gap.nan_to_num(nan=float("inf")))
