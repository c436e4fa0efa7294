"""Every field of `config.json` is read, known to have no effect, or refused."""

from __future__ import annotations

import json

import pytest
import tiny_checkpoints as tiny
from saved_checkpoints import FAMILIES, MODELS, NAMES, rewrite, same_as

from tfcore.io import from_pretrained
from tfcore.models import Encoder

WITHOUT_EFFECT = {
    # what the file is, and what transformers returns
    "model_type", "architectures", "transformers_version", "dtype", "use_cache", "is_encoder_decoder",
    "output_router_logits", "id2label", "label2id",
    # special tokens, which generation and tokenizers know
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id",
    "begin_suppress_tokens", "suppress_tokens", "cls_token_id", "sep_token_id",
    # initialisation and training
    "initializer_range", "initializer_factor", "init_std", "attn_pdrop", "embd_pdrop", "attention_dropout",
    "attention_probs_dropout_prob", "activation_dropout", "classifier_dropout", "encoder_layerdrop",
    "decoder_layerdrop", "router_aux_loss_coef", "time_step_floor", "time_step_init_scheme", "time_step_max",
    "time_step_min", "time_step_scale", "rescale_prenorm_residual", "apply_spec_augment",
    "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob", "mask_time_length",
    "mask_time_min_masks", "mask_time_prob", "initializer_cutoff_factor", "embedding_dropout",
    # heads that are not loaded
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "classifier_proj_size", "use_weighted_layer_sum", "median_filter_width",
    "classifier_activation", "classifier_bias", "classifier_pooling", "decoder_bias", "sparse_prediction",
    "sparse_pred_ignore_index",
    # the same mathematics by another program
    "reorder_and_upcast_attn", "pretraining_tp", "slow_but_exact", "residual_in_fp32", "use_mambapy",
    "use_associative_scan", "rescale_every", "context_length", "chunk_size", "deterministic_flash_attn",
    # of Mamba alone, written by Mamba-2 as well
    "time_step_rank",
    # follows from the class, or from other fields
    "is_decoder", "_sliding_window_pattern",
    # of further blocks that predict more tokens, which are not loaded
    "num_nextn_predict_layers",
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
    family = FAMILIES[MODELS[name]]
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
    ("llama", {"rope_parameters": {"rope_type": "mrope", "factor": 4.0}}),
    ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": None}}),
    ("llama", {"rope_parameters": {"rope_type": "yarn", "original_max_position_embeddings": "64"}}),
    ("llama", {"rope_parameters": {"rope_type": "longrope", "factor": 4.0, "short_factor": [1.0, 2.0]}}),
    (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "dynamic",
                "factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}}),
    ("llama", {"rope_parameters": {"rope_type": "linear"}}),
    (
        "llama",
        {"rope_parameters": {"rope_theta": 99.0}, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    ),
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
    ("qwen2", {"layer_types": ["full_attention", "linear_attention"]}),
    ("qwen2", {"layer_types": ["full_attention"]}),
    ("deepseek_v2", {"topk_method": "noaux_tc"}),
    ("deepseek_v3", {"num_key_value_heads": 1}),
    ("gpt_oss", {"swiglu_alpha": 1.0}),
    ("qwen3_next", {"layer_types": ["full_attention", "sliding_attention", "linear_attention"]}),
    ("gemma", {"use_bidirectional_attention": True}),
    ("gemma2", {"attn_logit_softcapping": -1.0}),
    ("phi", {"qk_layernorm": True}),
    ("stablelm", {"qk_layernorm": True}),
    ("roberta", {"pad_token_id": 3}),
    ("mamba", {"intermediate_size": 100}),
    ("mamba2", {"num_heads": 5}),
    ("mamba2", {"n_groups": 4}),
    ("mamba2", {"hidden_act": "relu"}),
    ("mamba2", {"time_step_limit": [0.3, 0.02]}),
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


LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}


@pytest.mark.parametrize(
    ("family", "fields", "says"),
    [
        (family, fields, says)
        for family in ("gemma3", "modernbert")
        for fields, says in (
            ({"rope_parameters": LINEAR, "rope_scaling": None}, "expected rope_parameters by kind of layer"),
            (
                {
                    "rope_parameters": {"full_attention": LINEAR},
                    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
                },
                "expected one rotation",
            ),
        )
    ],
)
def test_two_rotations_of_one_kind_of_layer_are_refused(family, fields, says, tmp_path):
    folder = rewrite(tiny.folder(family), tmp_path, **fields)
    with pytest.raises(ValueError, match=says):
        from_pretrained(folder)


@pytest.mark.parametrize(
    ("family", "field"),
    [("gpt2", "layer_norm_epsilon"), ("gpt2", "vocab_size"), ("llama", "rms_norm_eps")],
)
@pytest.mark.parametrize("wrong", [None, "x", []], ids=str)
def test_a_field_of_another_type_is_refused_by_its_file(family, field, wrong, tmp_path):
    folder = rewrite(tiny.folder(family), tmp_path, **{field: wrong})
    with pytest.raises(ValueError, match=r"config\.json: expected"):
        from_pretrained(folder)
