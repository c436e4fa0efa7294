"""Mamba-2: see :mod:`tfcore.mamba2`, whose mixer has the authors' names."""

from __future__ import annotations

from typing import Any

from tfcore.io.family import Family, Json
from tfcore.io.table import Row
from tfcore.mamba2 import Mamba2, Mamba2Config

LAYER = "backbone.layers.{layer}"
ROWS = (
    Row("embedding.weight", "backbone.embeddings.weight"),
    Row("blocks.{layer}.norm.weight", f"{LAYER}.norm.weight"),
    Row("blocks.{layer}.mixer.in_proj.*", f"{LAYER}.mixer.in_proj.*"),
    Row("blocks.{layer}.mixer.conv.*", f"{LAYER}.mixer.conv1d.*"),
    Row("blocks.{layer}.mixer.dt_bias", f"{LAYER}.mixer.dt_bias"),
    Row("blocks.{layer}.mixer.A_log", f"{LAYER}.mixer.A_log"),
    Row("blocks.{layer}.mixer.D", f"{LAYER}.mixer.D"),
    Row("blocks.{layer}.mixer.norm.weight", f"{LAYER}.mixer.norm.weight"),
    Row("blocks.{layer}.mixer.out_proj.*", f"{LAYER}.mixer.out_proj.*"),
    Row("norm_final.weight", "backbone.norm_f.weight"),
    Row("head.weight", "lm_head.weight"),
)


def config_from(json: Json) -> Mamba2Config:
    """Read the sizes; the number of heads follows from the others.

    Raises:
        ValueError: a ``num_heads`` that does not follow from them.
    """
    low, high = (_number(x) for x in json["time_step_limit"])
    config = Mamba2Config(
        vocab_size=json["vocab_size"],
        d_model=json["hidden_size"],
        num_layers=json["num_hidden_layers"],
        d_head=json["head_dim"],
        d_state=json["state_size"],
        num_groups=json["n_groups"],
        d_conv=json["conv_kernel"],
        expand=json["expand"],
        step_limit=(low, high),
        bias=json["use_bias"],
        conv_bias=json["use_conv_bias"],
        norm_eps=json["layer_norm_epsilon"],
        tied=json["tie_word_embeddings"],
    )
    if json["num_heads"] != config.num_heads:
        raise ValueError(
            f"expected num_heads as expand x hidden_size / head_dim, {config.num_heads}, got "
            f"{json['num_heads']}; correct the field"
        )
    return config


def _number(x: Any) -> float:
    """Read a number; transformers writes infinity as ``{"__float__": "Infinity"}``, once as ``Infinity``."""
    return float(x["__float__"] if isinstance(x, dict) else x)


def json_from(config: Mamba2Config) -> Json:
    """Write the sizes, and ``num_heads``, which follows from them."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers,
        "head_dim": config.d_head,
        "num_heads": config.num_heads,
        "state_size": config.d_state,
        "n_groups": config.num_groups,
        "conv_kernel": config.d_conv,
        "expand": config.expand,
        "time_step_limit": list(config.step_limit),
        "use_bias": config.bias,
        "use_conv_bias": config.conv_bias,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tied,
    }


FAMILY = Family(
    name="mamba2",
    architectures=("Mamba2ForCausalLM",),
    model=Mamba2,
    config_from=config_from,
    json_from=json_from,
    rows=ROWS,
    defaults={
        "num_heads": 128,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "expand": 2,
        "time_step_limit": (0.0, float("inf")),
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    },
    only={"hidden_act": ("silu",), "rms_norm": (True,)},
    prefix="backbone.",
    old_names={"backbone.embedding.": "backbone.embeddings."},
    copies={"lm_head.weight": "backbone.embeddings.weight"},
    head="lm_head.weight",
)
